"""Learners by the names that an order holds."""

from __future__ import annotations

import pytest

from superteach.coordinator.named import build_learner
from superteach.errors import SettingError


def test_a_learner_of_no_known_name_is_refused():
    """An order from another version may name one: it was taken for Huber's loss once."""
    with pytest.raises(SettingError, match=r"learner 'expectile' is not known; there are logistic, .*huber"):
        build_learner("expectile", None, None, True)
