"""The coordinator's side: it asks, and holds no rows."""
