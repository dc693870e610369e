"""The wire: every query survives it bit by bit, and nothing else gets through."""

from __future__ import annotations

import json
import struct
import typing
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from superteach.exceptions import QueryRefused, TeachingError
from superteach.losses import LOSSES, Huber, Loss
from superteach.protocol import wire
from superteach.protocol.queries import QUERIES, Announced, AskMoments, Census, CountRanks, Prepare, Query
from superteach.types import Array
from tests.protocol.test_queries import TALK

NUMBER = 3
CENSUS = Census()
ARRAYS = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=6),
    elements=st.floats(allow_nan=True, allow_infinity=True),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def values_of(hint: typing.Any) -> st.SearchStrategy:
    """Legal values of an annotated field, drawn from the annotation alone."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin is typing.get_origin(Array):
        return ARRAYS
    if origin is tuple:
        return st.lists(values_of(inner[0]), max_size=5).map(tuple)
    if inner:
        return st.one_of([values_of(option) for option in inner])
    simple = {
        int: st.integers(-(2**63), 2**64),
        float: NUMBERS,
        bool: st.booleans(),
        str: st.text(max_size=9),
        bytes: st.binary(max_size=16),
        type(None): st.none(),
        Announced: st.sampled_from([*(loss() for loss in LOSSES.values()), Huber(0.25)]),
    }
    return simple[hint]


def drawn(kind: type[Query]) -> st.SearchStrategy:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})


def same(one: typing.Any, other: typing.Any) -> bool:
    if isinstance(one, np.ndarray):
        equal = one.shape == other.shape and one.tobytes() == other.tobytes()
        return equal and one.dtype == other.dtype
    if isinstance(one, Loss):
        return isinstance(other, wire.LossByName) and one.settings() == other.settings()
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("kind", QUERIES, ids=lambda kind: kind.__name__)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_query_survives_the_wire(kind, data):
    """Whatever a query's fields may hold arrives as it was sent, to the last bit."""
    query = data.draw(drawn(kind))
    question = wire.read_question(wire.unpack(wire.pack_question("lesson", NUMBER, query)))
    assert (question.lesson, question.number, type(question.query)) == ("lesson", NUMBER, kind)
    for field in fields(kind):
        assert same(getattr(query, field.name), getattr(question.query, field.name)), field.name


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    """Bytes that are no message end in a refusal, never in another error."""
    for start in (b"", wire.MAGIC, wire.MAGIC + struct.pack("<I", max(0, len(data) - 8))):
        with pytest.raises(QueryRefused):
            wire.unpack(start + data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_bent_question_is_refused_or_is_a_query(data):
    """A question with one field replaced by any JSON is refused, or still reads as a legal query."""
    query = data.draw(st.sampled_from(TALK))
    declared = [field.name for field in fields(query)]
    name = data.draw(st.sampled_from(["lesson", "number", "query", "fields", *declared]))
    value = data.draw(JSON)
    try:
        changed = bent(lambda h: (h["fields"] if name in declared else h).update({name: value}), query)
        question = wire.read_question(wire.unpack(changed))
    except QueryRefused:
        return
    assert type(question.query) in QUERIES


def bent(change: typing.Callable[[dict], None], query: Query = CENSUS) -> bytes:
    """A question whose header somebody has changed."""
    data = wire.pack_question("lesson", NUMBER, query)
    (length,) = struct.unpack_from("<I", data, 4)
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return wire.MAGIC + struct.pack("<I", len(text)) + text + data[8 + length :]


MOMENTS = AskMoments("loss", "all", np.zeros(3), 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bent(lambda h: h.update(query="AskRow")), "no query named 'AskRow'"),
        (bent(lambda h: h.update(query="__class__")), "no query named"),
        (bent(lambda h: h["fields"].update(rows="mine")), "Census.rows has a value of a wrong type"),
        (bent(lambda h: h["fields"].update(extra=1)), "'extra'"),
        (bent(lambda h: h["fields"].pop("rows")), "'rows'"),
        (bent(lambda h: h.update(code="import os")), "'code'"),
        (bent(lambda h: h.update(kind="exec")), "of which kind"),
        (bent(lambda h: h.update(number=0)), "no round 0"),
        (bent(lambda h: h.update(number=True)), "int as its number"),
        (bent(lambda h: h["fields"].update(point=[0.0] * 3), MOMENTS), "point has a value"),
        (bent(lambda h: h["fields"].update(point={"array": 1}), MOMENTS), "point has a value"),
        (bent(lambda h: h["fields"].update(order=2.0), MOMENTS), "order has a value"),
        (bent(lambda h: h.update(arrays=[[4]]), MOMENTS), "ends before its numbers"),
        (bent(lambda h: h.update(arrays=[[2]]), MOMENTS), "bytes more"),
        (bent(lambda h: h.update(arrays=[[1, 1, 3]]), MOMENTS), "cannot travel"),
        (bent(lambda h: h.update(arrays=[[-3]]), MOMENTS), "cannot travel"),
        (bent(lambda h: h["fields"].update(prefixes={"list": [{"bytes": "zz"}]}), CountRanks(())), "prefixes"),
        (bent(lambda h: h["fields"].update(loss={"loss": {"name": ["os.system"]}}), Prepare(Huber(), 0.0)), "loss"),
        (bent(lambda h: h["fields"].update(constant="1"), Prepare(Huber(), 0.0)), "constant"),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_refused(data, reason):
    """The refusal names what does not fit."""
    with pytest.raises(QueryRefused, match=reason):
        wire.read_question(wire.unpack(data))


def test_big_messages_are_refused():
    """A message above the limit is turned down before it is read: these bytes are no message otherwise."""
    with pytest.raises(QueryRefused, match="too big"):
        wire.unpack(bytes(wire.MOST_BYTES + 1))


def test_a_number_that_json_cannot_hold_is_an_error_at_its_sender():
    """Infinite scalars do not travel (infinite numbers in arrays do)."""
    with pytest.raises(TeachingError, match="cannot travel"):
        wire.pack_question("lesson", NUMBER, Prepare(Huber(), float("inf")))


def test_replies_say_what_they_are():
    """Numbers, facts and refusals read back as they were."""
    from superteach.privacy.guard import Guard

    sealed = Guard().release(Census(), np.array([2.0, -0.0]), "t")
    reply = wire.read_reply(wire.pack_reply(sealed))
    assert reply.status == "ok"
    assert reply.values.tobytes() == sealed.values.tobytes()
    assert wire.read_reply(wire.pack_facts({"rows": 3})).facts == {"rows": 3}
    refused = wire.read_reply(wire.pack_no("refused", "because"))
    assert (refused.status, refused.reason, refused.values) == ("refused", "because", None)
    with pytest.raises(QueryRefused, match="a reply was expected"):
        wire.read_reply(wire.pack_question("lesson", NUMBER, Census()))
