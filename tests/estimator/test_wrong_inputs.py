"""Wrong inputs in Python: each meets one sentence of ours that names what is wrong; none is silently taught."""

from __future__ import annotations

import re

import pytest

from superteach.exceptions import SuperteachError
from tests.estimator.wrong import MORE, PYTHON


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(MORE)))
def test_more_wrong_inputs_meet_one_sentence(number, tmp_path):
    """Of the right class, that names what is wrong."""
    kind, field, call = MORE[number]
    with pytest.raises(SuperteachError) as caught:
        call(tmp_path)
    said = str(caught.value)
    assert type(caught.value) is kind
    assert re.search(field, said), said
    assert 15 < len(said) < 600
    assert "\n" not in said
