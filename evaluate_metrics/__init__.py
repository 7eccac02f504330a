"""Scoring: the published `coherence` metric, and what is built on it: intervals over runs, figures, the report."""
