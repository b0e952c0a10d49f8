"""Where outputs come from: another endpoint or a local model, behind a bounded queue."""
