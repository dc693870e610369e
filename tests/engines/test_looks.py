"""Which questions need not be asked again when a lesson goes on from its journal."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach import queries
from superteach.engines.journal import LOOKS
from superteach.line.messages import Turn
from superteach.losses import LOSSES
from tests.line.test_queries import suited, talk_on


@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_a_look_leaves_a_teacher_as_it_was(kind, pool):
    """Over a whole talk a question changes a teacher's memory if and only if it is not a look."""
    X, y = pool(kind, 101, 3, 0)
    teacher = st.Teacher("a", X, y, np.arange(101))
    state, changed = teacher.start(), set()
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = suited(query, [teacher], [state])
        before = state
        state, _ = teacher.answer(asked, state, Turn(number, 0, 1))
        if state is not before:
            changed.add(type(asked))
        assert state is before or not isinstance(asked, LOOKS), asked.name
    assert changed == set(queries.QUERIES) - set(LOOKS)
