"""Share the product's small pools and federations."""

from tests.conftest import chosen_rows, federation_of, pool

__all__ = ["chosen_rows", "federation_of", "pool"]
