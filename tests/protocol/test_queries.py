"""What crosses the line: declared lengths, pure answers, sealed replies, honest books."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import superteach as st
from superteach.exceptions import QueryRefused, TeachingError
from superteach.losses import LOSSES, Logistic, Loss
from superteach.privacy.guard import Guard
from superteach.protocol import queries
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import OPEN, QUERIES, Query
from superteach.selection.relaxation import BINS
from superteach.selection.rounding import EDGE

WIDTH = 3
POINT = np.array([0.3, -0.2, 0.5])
GOAL = np.array([1.0, 0.5, -0.4])
TURN = Turn(number=1, position=0, teachers=2)

GRADIENTS = queries.Gradients(GOAL, np.eye(WIDTH))
# A full conversation in an order in which each question can be answered.
TALK: list[Query] = [
    queries.Census(),
    queries.ColumnSums(np.zeros(WIDTH), 1),
    queries.ColumnSums(POINT, 2),
    queries.Prepare(Logistic(), 0.0),
    queries.AskMoments("square", "all", POINT, 2),
    queries.AskMoments("positive", "all", POINT, 2),
    queries.AskValues("positive", "all", POINT, GOAL, np.array([0.0, 0.5])),
    queries.AskMoments("loss", "all", POINT, 1),
    queries.AskMoments("loss", "all", POINT, 2),
    queries.Weigh(GOAL, 0.1),
    queries.AskMoments("dual", "all", POINT, 2),
    queries.AskValues("dual", "all", POINT, GOAL, np.array([0.0, 0.5, 1.0])),
    queries.BlockRound(POINT, GOAL, 1.0, 2.0, (1.0, 0.5, 2.0)),
    queries.BlockRound(POINT, GOAL, 1.0, 2.0, taken=(0.0,) * 7),
    queries.BlockRound(GOAL, GOAL, 1.0, 2.0, taken=(0.3, 1.0, 0.5, 0.2, 0.1, 0.6, 0.7)),
    queries.RankRows("block", POINT),
    queries.RankRows("random", seed=4),
    queries.RankRows("even", seed=4),
    queries.RankRows("dual", POINT),
    queries.CountRanks((b"", b"\x3f", b"\x40" * 8, b"\x40" * 15)),
    queries.Keep(b"\x80" + b"\x00" * 15),
    queries.Recall("search", True),
    queries.Census("chosen", 2),
    queries.AskMoments("loss", "chosen", POINT, 2),
    queries.AskValues("loss", "chosen", POINT, GOAL, np.array([1.0])),
    queries.Compare(np.stack([POINT, GOAL]), GOAL, np.array([0.1])),
    GRADIENTS,
    queries.Thin(np.linspace(-2.0, 1.0, BINS), 0.25, 5),
    queries.AskMoments("relax", "sampled", np.append(POINT, 0.1), 2),
    queries.AskMoments("relax", "sampled", np.append(POINT, 0.1), 2, rough=True),
    queries.AskValues("relax", "sampled", np.append(POINT, 0.1), np.append(GOAL, 1.0), np.array([0.5])),
    queries.Envelope(np.append(POINT, 0.1), GOAL, np.eye(WIDTH), np.array([0.0, 0.5])),
    queries.Include(np.append(POINT, 0.1)),
    queries.AskMoments("loss", "likely", POINT, 2),
    queries.AskValues("loss", "likely", POINT, GOAL, np.array([0.0, 1.0])),
    queries.Candidates(np.eye(WIDTH), np.append(POINT, 0.1), 1, 0.25, 1000, 5),
    queries.Select((2, 3), np.array([0.0, 2.0, 4.0]), (0, 0)),
    queries.RoundAlone(np.eye(WIDTH), np.append(POINT, 0.1), 5),
    queries.Show(WIDTH),
    queries.Select((2, 3), np.array([0.0, 1.0, 3.0]), (0, 0)),
    queries.Census("chosen", costs=True),
    queries.Recall("search", False),
    queries.Alone(GOAL, 0.5, False, False, "match", "stationary", 1.0, 7),
]
talk = pytest.mark.parametrize("position", range(len(TALK)), ids=[query.name for query in TALK])


def teacher_of(rows: int, pool) -> st.Teacher:
    """A teacher with some logistic rows."""
    return st.Teacher(f"with {rows}", *pool("logistic", rows, WIDTH, rows))


def talk_on(loss: Loss) -> list[Query]:
    """The same conversation about another loss."""
    return [queries.Prepare(loss, 0.0) if isinstance(query, queries.Prepare) else query for query in TALK]


def suited(query: Query, states, places: int | None = None) -> Query:
    """The question as teachers in these states can be asked it: with a β and counts for each of them."""
    places = places or len(states)
    if isinstance(query, queries.BlockRound):
        return replace(query, beta=(1.0,) * places if query.beta else (), taken=query.taken[:places])
    if isinstance(query, queries.Select):
        shown = [0 if state.undecided is None else len(state.undecided.candidates) for state in states]
        counts = (*shown, *(3,) * (places - len(states)))  # those of teachers who are not here
        return replace(query, counts=counts, places=np.arange(0.0, sum(counts), 2.0), idle=(0,) * places)
    return query


def asked_of(engine: st.Threads, query: Query) -> Query:
    """The question as the teachers of an engine can be asked it."""
    return suited(query, engine.states())


def replies_to(engine: st.Threads, query: Query, number: int = 1) -> np.ndarray:
    """The sum of all replies, or one after the other where their lengths depend on rows."""
    return np.concatenate(engine.gather(query, number)) if query.varies else engine.sum(query, number)


def put(query: Query, teacher: st.Teacher, state) -> Query:
    """The question as one teacher of two can be asked it."""
    return suited(query, [state], TURN.teachers)


def after(teacher: st.Teacher, position: int):
    """The teacher's state once all questions before this one are answered."""
    state = teacher.start()
    for query in TALK[:position]:
        state, _ = teacher.answer(put(query, teacher, state), state, TURN)
    return state


def test_the_talk_holds_every_query():
    """No query on the list escapes these tests."""
    assert {type(query) for query in TALK} == {query for query in QUERIES if "none" in query.privacy}
    assert len(set(QUERIES)) == len(QUERIES)


@talk
def test_reply_length_is_declared_and_does_not_depend_on_rows(position, pool):
    """One row, five rows and five hundred answer with as many numbers as the query declares.

    Two queries show single rows and so tell how many there are; a policy allows neither unless it lists them.
    """
    for rows in (1, 5, 500):
        teacher = teacher_of(rows, pool)
        state = after(teacher, position)
        query = put(TALK[position], teacher, state)
        _, sealed = teacher.answer(query, state, TURN)
        assert query.fits(sealed.values)
        if query.varies:
            assert type(query) in OPEN
        else:
            assert sealed.values.shape == (query.reply_length,) == (TALK[position].reply_length,)
        assert sealed.values.dtype == np.float64
        assert np.isfinite(sealed.values).all()


@talk
def test_answers_are_pure(position, pool):
    """The same question twice gives the same reply and the same new state, and leaves the old one alone."""
    teacher = teacher_of(50, pool)
    state = after(teacher, position)
    before = pickle.dumps(state)
    query = put(TALK[position], teacher, state)
    first_state, first = teacher.answer(query, state, TURN)
    assert pickle.dumps(state) == before
    second_state, second = teacher.answer(query, state, TURN)
    assert first.values.tobytes() == second.values.tobytes()
    assert pickle.dumps(first_state) == pickle.dumps(second_state)
    assert pickle.dumps(state) == before


@talk
def test_rows_and_targets_stay_as_they_are(position, pool):
    """No question changes what a teacher owns."""
    teacher = teacher_of(50, pool)
    state, before = after(teacher, position), pickle.dumps((teacher.target, teacher.ids, teacher.rows))
    teacher.answer(put(TALK[position], teacher, state), state, TURN)
    assert pickle.dumps((teacher.target, teacher.ids, teacher.rows)) == before


class AskRow(queries.Census):
    """A harmless looking heir of a query on the list."""

    exposure: ClassVar[str] = "everything"


class Anything(Query):
    """A query of nobody's list."""

    reply_length = 1


def test_unlisted_queries_are_refused(pool):
    """A subclass of Query, even of a listed query, gets no answer and no seal."""
    teacher = teacher_of(5, pool)
    for query in (AskRow(), Anything(), "Census", None):
        with pytest.raises(QueryRefused, match="knows no query"):
            teacher.answer(query, teacher.start(), TURN)
    for query in (AskRow(), Anything()):
        with pytest.raises(QueryRefused, match="knows no query"):
            Guard().release(query, np.zeros(2), "t")


@pytest.mark.parametrize(
    "query",
    [
        queries.AskMoments("loss", "all", POINT, 1),
        queries.AskMoments("dual", "all", POINT, 1),
        queries.BlockRound(POINT, GOAL, 1.0, 2.0, (1.0, 1.0)),
        queries.BlockRound(POINT, GOAL, 1.0, 2.0, taken=(0.0, 0.0)),
        queries.BlockRound(POINT, GOAL, 1.0, 2.0, taken=(0.5, 0.0)),
        queries.RankRows("dual", POINT),
        queries.CountRanks((b"",)),
        queries.Keep(b"\xff" * 16),
        queries.AskMoments("square", "chosen", POINT, 1),
        queries.Recall("search", True),
        *(query for query in TALK[TALK.index(GRADIENTS) :] if not isinstance(query, queries.Show)),
    ],
    ids=lambda query: query.name,
)
def test_questions_out_of_order_are_refused(query, pool):
    """What no earlier query has set cannot be asked for."""
    teacher = teacher_of(5, pool)
    with pytest.raises(QueryRefused, match="no earlier query"):
        teacher.answer(query, teacher.start(), TURN)


def test_a_seal_cannot_be_forged():
    """Only the guard makes a Sealed, and only of the declared length."""
    for key in (None, object(), "key"):
        with pytest.raises(QueryRefused, match="guard alone"):
            Sealed(np.zeros(2), key)
    with pytest.raises(TypeError):
        Sealed(np.zeros(2))
    for wrong in (np.zeros(3), np.zeros((1, 2)), np.zeros((2, 1)), np.zeros(0)):
        with pytest.raises(TeachingError, match="not as declared"):
            Guard().release(queries.Census(), wrong, "t")


class Leaky:
    """A teacher that answers with a bare array."""

    name = "leaky"

    def __init__(self, rows) -> None:
        self.rows = rows

    def start(self):
        return None

    def answer(self, query, state, turn):
        return state, np.zeros(query.reply_length)


def test_engines_take_sealed_replies_alone(pool):
    """An engine turns down anything that is not Sealed, from any thread."""
    honest = teacher_of(5, pool)
    for threads in (1, 2):
        engine = st.Threads([honest, Leaky(honest.rows)], threads=threads)
        with pytest.raises(TeachingError, match="sealed"):
            engine.sum(queries.Census(), 1)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_sums_do_not_depend_on_threads(kind, pool, federation_of):
    """One thread and two give the same sums to the last bit, whoever finishes first.

    What a teacher does alone takes longest, and is looked at for one loss and few rows.
    """
    X, y = pool(kind, 301 if kind == "squared" else 3001, WIDTH, 0)
    totals = []
    for threads in (1, 2, 2):
        federation = federation_of(X, y, 7, threads=threads)
        engine, seen = federation.engine, []
        talk = [one for one in talk_on(LOSSES[kind]()) if kind == "squared" or not isinstance(one, queries.Alone)]
        for query in talk:
            seen.append(replies_to(engine, asked_of(engine, query), len(seen) + 1).tobytes())
        engine.close()
        totals.append(seen)
    assert totals[0] == totals[1] == totals[2]


@pytest.mark.parametrize("K", [1, 3, 7])
def test_the_ledger_counts_every_round(K, pool, federation_of):
    """One entry a round, numbered from 1, with 8 bytes for each number each teacher sends."""
    X, y = pool("logistic", 70, WIDTH, 0)
    told = []
    federation = federation_of(X, y, K, watch=told.append)
    asked = [query for query in TALK if not isinstance(query, queries.BlockRound | queries.RankRows)]
    counting = next(i for i, query in enumerate(asked) if isinstance(query, queries.CountRanks))
    asked.insert(counting, queries.RankRows("dual", POINT))
    for place, template in enumerate(asked):
        asked[place] = query = asked_of(federation.engine, template)
        federation.stage = f"before {query.name}"
        replies = federation.gather(query) if query.varies else [federation.sum(query)]
        assert len(replies) == (K if query.varies else 1)
    assert [entry.number for entry in federation.ledger] == list(range(1, len(asked) + 1))
    assert list(federation.ledger) == told
    for query, entry in zip(asked, federation.ledger, strict=True):
        assert entry.query == query.name
        assert entry.stage == f"before {query.name}"
        if query.varies:
            assert entry.bytes_in > 0
        else:
            assert entry.bytes_in == K * 8 * query.reply_length
        assert entry.bytes_out == K * query.nbytes
        assert entry.seconds >= 0.0


def test_broadcast_bytes():
    """Arrays count 8 bytes a number, prefixes a byte for each of theirs."""
    assert queries.AskValues("loss", "all", POINT, GOAL, np.ones(5)).nbytes >= 8 * (3 + 3 + 5)
    assert queries.AskValues("loss", "all", POINT, GOAL, np.ones(5)).nbytes <= 8 * (3 + 3 + 5) + 16
    assert queries.CountRanks((b"", b"ab")).nbytes == 1 + 3
    assert queries.Keep(b"\xff" * 16).nbytes == 16


def test_a_refusal_leaves_no_entry(pool, federation_of):
    """A round that was refused is not in the books."""
    federation = federation_of(*pool("logistic", 20, WIDTH, 0), 2)
    with pytest.raises(QueryRefused):
        federation.sum(queries.CountRanks((b"",)))
    assert federation.ledger == ()


OWN = queries.BlockRound | queries.RoundAlone | queries.Alone
"""What a teacher works out for itself."""


def is_own(query: Query) -> bool:
    """Whether what a teacher says depends on who holds the other rows."""
    return isinstance(query, OWN) or getattr(query, "by", "") == "block" or getattr(query, "rough", False)


@talk
def test_sums_are_those_of_one_teacher(position, pool, federation_of):
    """Seven teachers' sums read the same as those of one that owns all rows (what a teacher does alone excepted)."""
    X, y = pool("logistic", 210, WIDTH, 0)
    if is_own(TALK[position]):
        return
    results = []
    for K in (1, 7):
        federation = federation_of(X, y, K)
        for query in TALK[: position + 1]:
            if is_own(query):
                continue
            if isinstance(query, queries.Candidates):  # which rows are long, and never thinned, is each teacher's own
                query = replace(query, thin=EDGE)
            result = replies_to(federation.engine, asked_of(federation.engine, query))
            if isinstance(query, queries.Candidates):
                shown = [query.read(reply) for reply in federation.engine.gather(query, 1)]
                rows = [np.column_stack([one.vectors, one.probabilities]) for one in shown]
                decided = sum(np.array([one.certain, one.idle, *one.total]) for one in shown)
                result = np.concatenate([decided, np.concatenate(rows).ravel()])
        results.append(result)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-10, atol=1e-10)


def test_every_query_says_what_it_shows():
    """Each listed query has one line on what its reply exposes."""
    for query in QUERIES:
        assert isinstance(query.exposure, str)
        assert query.exposure
