"""The HTTP API against a real PostgreSQL, through the whole middleware."""
