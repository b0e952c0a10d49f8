"""Rules for dicts that count, group, or make their own entries."""
