"""Engines: anything that can broadcast a query and add up the sealed replies."""
