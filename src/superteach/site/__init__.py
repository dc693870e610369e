"""A teacher at home: its rows, its policy, its audit log and its state, behind one door of bytes.

`Site.answer(bytes) -> bytes` is all that a transport needs. A lesson at a site is

    hello   who are you, which columns and labels do you have?      names and counts
    agree   these columns, these labels, this place in the roster   nothing
    ask     one query of the closed list                            one sealed array
    finish  the lesson is over                                      how many rows were chosen

and whatever goes wrong comes back as a refusal (the teacher's decision) or a failure (an accident), with a
reason that holds no value of a row. Details of accidents stay in the teacher's own log.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from superteach import wire
from superteach.errors import DataError, QueryRefused, SuperteachError, TeachingError
from superteach.inputs import make_teacher
from superteach.losses import LOSSES
from superteach.messages import Sealed, Turn
from superteach.privacy.audit import Audit
from superteach.privacy.policy import Policy
from superteach.queries import (
    Accept,
    Alone,
    Approach,
    AskMoments,
    AskValues,
    Balance,
    BlockOffer,
    BlockRound,
    Census,
    ChosenCost,
    ColumnSums,
    Compare,
    CountRanks,
    Keep,
    Prepare,
    Propose,
    Query,
    RankRows,
    Recall,
    Refine,
    Weigh,
)
from superteach.site.rows import SECRET_BYTES, Holding
from superteach.teacher import Teacher
from superteach.teacher.state import State

MOST_REPLY = 1 << 22
"""No reply has more numbers than this (32 MB)."""
LONGEST = 1 << 12
"""No array of a question is longer than this, unless there are more columns."""

SCOPES: dict[type[Query], str] = {
    **dict.fromkeys((AskMoments, AskValues), "as asked"),
    **dict.fromkeys(
        (ColumnSums, Prepare, Weigh, BlockRound, BlockOffer, RankRows, CountRanks, Compare, Balance), "all"
    ),
    **dict.fromkeys((Refine, Accept, ChosenCost), "chosen"),
    Propose: "changes",
    **dict.fromkeys((Census, Keep, Recall, Approach, Alone), "counts"),
}
"""Whose sum the reply to a query is: of all rows, of the chosen ones, of the rows of each change, or nothing but a
count of rows; "as asked" may be of the sample too."""

_log = logging.getLogger(__name__)


@dataclass
class _Lesson:
    """What a site knows of the lesson it is in."""

    name: str
    rounds: int = 0
    number: int = 0
    """Of the last round."""
    position: int = 0
    teachers: int = 1
    loss: str = ""
    teacher: Teacher | None = None
    state: State | None = None
    last: tuple[bytes, bytes] | None = None
    """Digest of the last message and the answer to it: asked twice, a question is answered once."""
    finished: dict[str, Any] | None = None
    written: Path | None = None
    """The file of the chosen rows."""
    heard: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    """Every choice of which a sum or a count left, one bit a row."""
    before: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    """Those of the beginnings that this lesson follows."""
    proposed: bool = False
    """Whether one of those was told of changes, or this one before it was prepared anew."""


@dataclass
class Site:
    """One owner's door. Every answer passes the policy and leaves a line in the audit log."""

    name: str
    holding: Holding
    policy: Policy
    audit: Audit
    coordinator: str = "unknown"
    """Whose certificate signed the lesson, as the transport has verified it."""
    fingerprint: str = ""
    """SHA-256 of that certificate."""
    threads: int = 1
    """Of the linear algebra library; with 1 the last bits are the same on every machine of a kind."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_BYTES), repr=False)
    """With which rows are sealed in a hello; a teacher with a folder keeps it there, over its processes."""
    _seal: str | None = None
    _lessons: dict[str, _Lesson] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._controller = ThreadpoolController()

    def answer(self, data: bytes) -> bytes:
        """One message in, one message out, whatever comes in."""
        with self._lock, self._controller.limit(limits=self.threads):
            return self._answer(data)

    def _answer(self, data: bytes) -> bytes:
        started = time.perf_counter()
        facts: dict[str, Any] = {"coordinator": self.coordinator, "bytes_in": len(data)}
        try:
            message = wire.unpack(data)
            self.policy.check_coordinator(self.coordinator, self.fingerprint)
            facts |= {"kind": message.kind, "shape": [list(array.shape) for array in message.arrays]}
            reply = self._handle(message, data, facts)
            verdict = "answered"
        except QueryRefused as error:
            verdict = f"refused: {error}"
            reply = wire.pack_no("refused", str(error))
        except Exception as error:  # an accident must not tell what the rows hold
            _log.exception("a message could not be answered")
            verdict = f"failed: {type(error).__name__}"
            reply = wire.pack_no("failed", _told(error))
        facts |= {
            "bytes_out": len(reply),
            "seconds": round(time.perf_counter() - started, 4),
            "verdict": verdict,
        }
        try:
            self.audit.add(facts)
        except QueryRefused as error:
            _log.error("%s", error)
            return wire.pack_no("refused", str(error))
        if verdict != "answered":
            _log.warning("%s: %s", facts.get("query", facts.get("kind", "message")), verdict)
        return reply

    def _handle(self, message: wire.Message, data: bytes, facts: dict[str, Any]) -> bytes:
        if message.kind == "ask":
            return self._ask(message, data, facts)
        lesson = message.header.get("lesson")
        if not isinstance(lesson, str) or not 0 < len(lesson) <= 100:
            raise QueryRefused("a message names its lesson")
        facts["lesson"] = lesson
        if message.kind == "hello":
            return wire.pack_facts(self._hello(lesson, message.header, facts))
        if message.kind == "agree":
            return wire.pack_facts(self._agree(lesson, message.header))
        if message.kind == "finish":
            return wire.pack_facts(self._finish(lesson, facts))
        raise QueryRefused(f"a teacher does not take messages of kind {message.kind!r}")

    def _hello(self, lesson: str, header: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
        loss = LOSSES.get(str(header.get("loss")))
        if loss is None:
            raise QueryRefused("a hello names the loss of the learner")
        self.policy.check_rows(self.holding.count or 1, "this teacher's")
        known = self._lessons.setdefault(lesson, _Lesson(lesson))
        if known.number:
            raise QueryRefused(f"lesson {lesson} has begun already")
        follows = header.get("follows")
        if isinstance(follows, str) and follows != lesson:
            facts["follows"] = follows[:100]
            if (before := self._lessons.pop(follows, None)) is not None:
                known.rounds += before.rounds  # beginning anew does not wind the count back
                known.before += [*before.before, *before.heard]
                told = before.state is not None and before.state.proposed is not None
                known.proposed = before.proposed or told
                self._discard(before)
        if self._seal is None:
            self._seal = self.holding.seal(self.secret)
        return {**self.holding.schema(loss.classifies), "seal": self._seal}

    def _discard(self, lesson: _Lesson) -> None:
        """Remove the chosen rows of a beginning that another one takes the place of."""
        try:
            if lesson.written is not None:
                lesson.written.unlink(missing_ok=True)
        except OSError:
            _log.exception("the chosen rows of lesson %s, which was begun anew, stay", lesson.name)

    def _agree(self, lesson: str, header: dict[str, Any]) -> dict[str, Any]:
        known = self._lessons.get(lesson)
        if known is None or known.number:
            raise QueryRefused(
                f"lesson {lesson} " + ("has begun already" if known else "was never announced")
            )
        loss = LOSSES.get(str(header.get("loss")))
        columns, first = header.get("columns"), header.get("first_id")
        position, teachers = header.get("position"), header.get("teachers")
        if type(position) is not int or type(teachers) is not int or not 0 <= position < teachers:
            raise QueryRefused("an agreement gives a teacher its place in the roster")
        if loss is None or type(first) is not int or not 0 <= first < 1 << 62:
            raise QueryRefused("an agreement names the loss and the first row's id")
        if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
            raise QueryRefused("an agreement lists the columns")
        part = self.holding.part(columns, first)
        known.teacher = make_teacher(part, columns, loss(), header.get("classes"), self.policy.least_change)
        known.teacher.least_sample = max(known.teacher.least_sample, self.policy.least_rows)
        known.teacher.least_proposed = self.policy.least_rows
        known.position, known.teachers = position, teachers
        known.loss, known.state, known.last = loss.name, known.teacher.start(), None
        return {}

    def _ask(self, message: wire.Message, data: bytes, facts: dict[str, Any]) -> bytes:
        facts["query"] = str(message.header.get("query"))[:60]
        question = wire.read_question(message)
        query, number = question.query, question.number
        facts |= {"lesson": question.lesson, "number": number, "query": query.name}
        known = self._lessons.get(question.lesson)
        if known is None or known.teacher is None or known.state is None:
            raise QueryRefused(f"lesson {question.lesson!r} has no agreement with this teacher")
        digest = hashlib.sha256(data).digest()
        if known.last is not None and known.last[0] == digest:
            facts["again"] = True
            return known.last[1]
        if known.finished is not None:
            raise QueryRefused(f"lesson {question.lesson} is over")
        if number <= known.number:
            raise QueryRefused(f"round {number} was asked after round {known.number}")
        self.policy.check_query(query, known.rounds)
        self._check_size(query, known)
        known.rounds += 1
        turn = Turn(number, known.position, known.teachers)
        state, sealed = known.teacher.answer(query, known.state, turn)
        if isinstance(query, Propose) and not self._may_propose(state, known):
            state, sealed = known.teacher.answer(replace(query, each=0), known.state, turn)
        self._check_rows(query, state, known.teacher)
        choice = self._new_choice(query, state, known)
        known.proposed |= known.state.proposed is not None and state.proposed is None
        if not isinstance(sealed, Sealed):
            raise TeachingError("a teacher's reply is sealed")
        known.heard += choice
        known.state, known.number = state, number
        reply = wire.pack_reply(sealed)
        known.last = (digest, reply)
        return reply

    def _check_size(self, query: Query, known: _Lesson) -> None:
        """Refuse what would cost this teacher more memory than any lesson needs."""
        assert known.teacher is not None
        most = max(LONGEST, known.teacher.rows.features + 2)
        for value in vars(query).values():
            longest = max(value.shape, default=0) if hasattr(value, "shape") else 0
            if longest > most or (isinstance(value, tuple) and len(value) > most):
                raise QueryRefused(f"{query.name} holds an array longer than {most}")
        if query.reply_length > MOST_REPLY:
            raise QueryRefused(
                f"{query.name} asks for {query.reply_length} numbers; {MOST_REPLY} are the most"
            )
        if isinstance(query, Prepare) and query.loss.name != known.loss:
            raise QueryRefused(f"the agreement is on the loss {known.loss!r}, not {query.loss.name!r}")

    def _check_rows(self, query: Query, state: State, teacher: Teacher) -> None:
        """Hold the policy's least number of rows against the rows behind this reply."""
        scope = _scope(query)
        teacher = teacher.sample if scope == "sample" else teacher
        if scope in ("all", "sample", "unknown"):
            self.policy.check_rows(teacher.rows.count, "this teacher's")
        if isinstance(query, AskMoments | AskValues) and query.function == "positive":
            # Beside the sums over all rows these give the other class away too.
            positive = int((teacher.target > 0.0).sum())
            for rows in (positive, teacher.rows.count - positive):
                self.policy.check_rows(rows, "this teacher's of one class")
        if scope in ("chosen", "unknown") and state.chosen is not None:
            self.policy.check_rows(len(state.chosen), "those chosen here")
        if scope == "changes" and state.proposed is not None:
            for rows in state.proposed.changes:
                self.policy.check_rows(len(rows), "those of a change")

    def _new_choice(self, query: Query, state: State, known: _Lesson) -> list[npt.NDArray[np.uint8]]:
        """Choices not heard of before, one bit a row; refused where one is a few rows from one of a beginning it follows."""
        assert known.teacher is not None
        assert known.state is not None
        if isinstance(query, Propose) and state.proposed is not None:
            told, old = 0, known.state.proposed
            if old is not None and old.stands and old.chosen is state.proposed.chosen:
                told = len(old.changes)
            return [_bits(choice, known.teacher) for choice in state.proposed.choices[told:]]
        if state.chosen is None or state.chosen is known.state.chosen:
            return []
        choice = _bits(state.chosen, known.teacher)
        least = _nearest(choice, known.before)
        if 0 < least < self.policy.least_change:
            rows = "1 row" if least == 1 else f"{least} rows"
            raise QueryRefused(
                f"the choice of {query.name} differs from the one of the lesson it follows in {rows}, fewer than "
                f"{self.policy.least_change} (least_change); sums of both could be subtracted; use --on-loss wait, or "
                "begin a lesson with another budget"
            )
        return [choice]

    def _may_propose(self, state: State, known: _Lesson) -> bool:
        """Whether all that is proposed keeps its distance from the beginnings that this lesson follows.

        Of changes of several rows a lesson tells once, however often it begins.
        """
        assert known.teacher is not None
        if known.proposed and state.proposed is not None and not state.proposed.together:
            return False
        choices = state.proposed.choices if state.proposed is not None and known.before else ()
        rows = (_nearest(_bits(choice, known.teacher), known.before) for choice in choices)
        return not any(0 < least < self.policy.least_change for least in rows)

    def _finish(self, lesson: str, facts: dict[str, Any]) -> dict[str, Any]:
        known = self._lessons.get(lesson)
        if known is None or known.state is None or known.teacher is None:
            raise QueryRefused(f"lesson {lesson!r} has no agreement with this teacher")
        if known.finished is None:
            if known.state.chosen is None:
                raise QueryRefused(f"lesson {lesson} ends before any row is chosen")
            try:
                known.written = self.holding.write_chosen(lesson, known.state.chosen, self.policy)
            except OSError as error:  # the choice stands; whoever asks again may find room
                _log.exception("the chosen rows could not be written")
                facts["fault"] = f"the chosen rows could not be written: {error.strerror}"
                return {"rows": len(known.state.chosen), "written": "nothing", "fault": facts["fault"]}
            known.finished = {"rows": len(known.state.chosen), "written": self.policy.write}
        return known.finished


def _bits(chosen: npt.NDArray[np.int64], teacher: Teacher) -> npt.NDArray[np.uint8]:
    mask = np.zeros(teacher.rows.count, dtype=bool)
    mask[chosen] = True
    return np.packbits(mask)


def _nearest(choice: npt.NDArray[np.uint8], others: list[npt.NDArray[np.uint8]]) -> int:
    """In how few rows a choice differs from one of the others."""
    return min((int(np.bitwise_count(choice ^ other).sum()) for other in others), default=0)


def _scope(query: Query) -> str:
    """Whose sum a reply is; a query that is not in the table is held to both rules."""
    if isinstance(query, AskMoments | AskValues):
        return query.rows
    return SCOPES.get(type(query), "unknown")


def _told(error: Exception) -> str:
    """What the coordinator hears of an accident: never a text that may quote a row."""
    if isinstance(error, DataError):
        return "its rows do not suit this lesson; its own log says why"
    if isinstance(error, SuperteachError):
        return f"{type(error).__name__}; its own log says more"
    return f"an unexpected {type(error).__name__}; its own log says more"
