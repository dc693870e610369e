"""A hundred thousand bent messages, in the slow suite because they take a minute."""

from __future__ import annotations

import logging

import pytest

from tests.organisations.fuzz import pelt


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_hundred_thousand_bent_messages(pool, site_of):
    logging.disable(logging.CRITICAL)  # pytest would keep every line
    try:
        counts = pelt(site_of("a", *pool("logistic", 40, 3, 0)), 100_000, seed=2)
    finally:
        logging.disable(logging.NOTSET)
    assert sum(counts.values()) == 100_000
