"""haiku-ingester: a daemon that keeps a haiku.rag database in step with its sources."""
