"""Control flow: what is bound, live, reached, and exposed to callers."""
