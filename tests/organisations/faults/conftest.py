"""The stage that the tests of faults share."""

from __future__ import annotations

import pytest

from tests.organisations.faults.stage import Stage


@pytest.fixture
def stage(pool, site_of, tmp_path):
    """`stage(seed, how)` sets four teachers up."""
    return lambda seed, how=None: Stage(seed, how, pool, site_of, tmp_path)
