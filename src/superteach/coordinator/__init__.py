"""The coordinator's side: it asks for sums and never sees a row."""
