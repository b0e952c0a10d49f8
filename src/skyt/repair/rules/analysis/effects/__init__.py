"""Effects: what an expression or statement reads, writes and may raise."""
