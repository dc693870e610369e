"""Wrong inputs in Python: each meets one sentence of ours that names what is wrong; none is silently taught."""

from __future__ import annotations

import re

import pytest

from superteach.exceptions import SuperteachError
from tests.estimator.wrong import PYTHON


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(PYTHON)), ids=lambda number: re.sub(r"\W+", "-", PYTHON[number][0])[:40])
def test_a_wrong_input_meets_one_sentence(number, tmp_path):
    """Column, value or row, in one line, from the tree of errors."""
    words, call = PYTHON[number]
    with pytest.raises(SuperteachError) as caught:
        call(tmp_path)
    said = str(caught.value)
    assert re.search(words, said), said
    assert 15 < len(said) < 600
    assert "\n" not in said


def test_there_are_many():
    """Asked for: 200, with those of the command line (tests/end_to_end/test_wrong_orders.py)."""
    assert len(PYTHON) > 200
