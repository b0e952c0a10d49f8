"""The store of a service: canons, samples, metrics and API keys in SQLite or PostgreSQL (extra `serve`)."""
