"""The benchmark with known posteriors (P2): synthetic records, hail forecasts, clinical notes."""
