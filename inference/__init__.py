"""A model, with or without an adapter, and prompt rows -> output rows: engines, resumable generation."""
