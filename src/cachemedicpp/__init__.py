"""State: corrupt a transformer's KV cache on purpose, repair it inside attention, and report the drift."""
