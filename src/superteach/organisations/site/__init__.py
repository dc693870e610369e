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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from superteach.errors import DataError, QueryRefused, SuperteachError, TeachingError
from superteach.line import wire
from superteach.line.messages import Sealed, Turn
from superteach.line.queries import (
    OPEN,
    Alone,
    AskMoments,
    AskValues,
    Balance,
    BlockOffer,
    BlockRound,
    Bound,
    Census,
    ChosenCost,
    ColumnSums,
    Compare,
    Count,
    CountRanks,
    Draw,
    Keep,
    Prepare,
    Price,
    Query,
    RankRows,
    Recall,
    RoundAlone,
    Tally,
    Weigh,
)
from superteach.mathematics.losses import LOSSES
from superteach.organisations.site.rows import SECRET_BYTES, Holding
from superteach.promises.audit import Audit
from superteach.promises.policy import Policy
from superteach.teacher import Teacher
from superteach.teacher.inputs import make_teacher
from superteach.teacher.state import State

MOST_REPLY = 1 << 22
"""No reply has more numbers than this (32 MB)."""
LONGEST = 1 << 12
"""No array of a question is longer than this, unless there are more columns."""

SCOPES: dict[type[Query], str] = {
    **dict.fromkeys((AskMoments, AskValues), "as asked"),
    **dict.fromkeys(
        (
            ColumnSums,
            Prepare,
            Weigh,
            BlockRound,
            BlockOffer,
            RankRows,
            CountRanks,
            Compare,
            Balance,
            Draw,
            Price,
            Bound,
        ),
        "all",
    ),
    ChosenCost: "chosen",
    **dict.fromkeys((Census, Count, Keep, Recall, Tally, RoundAlone, Alone), "counts"),
    **dict.fromkeys(OPEN, "rows"),
}
"""Of what the reply to a query is made: all rows, the chosen ones, nothing but counts, or single rows (then a policy
must list the query by name); "as asked" may be of rows drawn by lot too."""

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
        known.teacher = make_teacher(part, columns, loss(), header.get("classes"))
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
        self._check_rows(query, state, known.teacher)
        if not isinstance(sealed, Sealed):
            raise TeachingError("a teacher's reply is sealed")
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
        if scope in ("all", "unknown"):
            self.policy.check_rows(teacher.rows.count, "this teacher's")
        if scope in ("drawn", "priced") and state.drawing is not None:
            self.policy.check_rows(state.drawing.rows.count, "those drawn here")
        if isinstance(query, AskMoments | AskValues) and query.function == "positive":
            # Beside the sums over all rows these give the other class away too.
            positive = int((teacher.target > 0.0).sum())
            for rows in (positive, teacher.rows.count - positive):
                self.policy.check_rows(rows, "this teacher's of one class")
        if scope in ("chosen", "unknown") and state.chosen is not None:
            self.policy.check_rows(len(state.chosen), "those chosen here")

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
