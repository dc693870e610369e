"""Which questions need not be asked again when a lesson goes on from its journal."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import superteach as st
from superteach.losses import LOSSES
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.teacher.state import State
from tests.protocol.test_queries import suited, talk_on


@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_a_look_leaves_a_teacher_as_it_was(kind, pool):
    """Over a whole talk a question changes just what its class says, and nothing where it says nothing."""
    X, y = pool(kind, 101, 3, 0)
    teacher = st.Teacher("a", X, y, np.arange(101))
    state, changed = teacher.start(), set()
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = suited(query, [state])
        before = state
        state, _ = teacher.answer(asked, state, Turn(number, 0, 1))
        if state is not before:
            changed.add(type(asked))
        other = {entry.name for entry in fields(state) if vars(state)[entry.name] is not vars(before)[entry.name]}
        assert asked.changes == queries.EVERYTHING or other <= set(asked.changes), asked.name
    assert changed == {query for query in queries.QUERIES if query.changes and "none" in query.privacy}


def test_changes_are_fields_of_a_state():
    """A field that is renamed is renamed in the facts of queries too."""
    named = {name for query in queries.QUERIES for name in query.changes} - set(queries.EVERYTHING)
    assert named <= {entry.name for entry in fields(State)}
