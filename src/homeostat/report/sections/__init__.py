"""Sections of a report. `run` and `artifacts` fit any run; `code` and `cache` know one system's metrics."""
