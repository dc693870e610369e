"""Files for the tests of the command line."""

from pathlib import Path

import pytest

from tests.end_to_end.orders import write_pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One CSV per teacher, and the same rows as one Parquet file with an owner column."""
    return write_pool(tmp_path_factory.mktemp("pool"))
