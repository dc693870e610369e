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

from threadpoolctl import ThreadpoolController

from superteach.errors import DataError, QueryRefused, SuperteachError
from superteach.line import wire
from superteach.line.messages import Turn
from superteach.mathematics.losses import LOSSES
from superteach.organisations.site.rows import SECRET_BYTES, Holding
from superteach.promises.guard import Guard
from superteach.teacher import Teacher
from superteach.teacher.inputs import make_teacher
from superteach.teacher.state import State
from superteach.types import Json

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
    teacher: Teacher | None = None
    state: State | None = None
    last: tuple[bytes, bytes] | None = None
    """Digest of the last message and the answer to it: asked twice, a question is answered once."""
    finished: Json | None = None
    written: Path | None = None
    """The file of the chosen rows."""


@dataclass
class Site:
    """One owner's door. Every answer passes the guard, which leaves a line in the audit log."""

    name: str
    holding: Holding
    guard: Guard
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
        facts: Json = {"coordinator": self.coordinator, "bytes_in": len(data)}
        try:
            message = wire.unpack(data)
            self.guard.check_coordinator(self.coordinator, self.fingerprint)
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
        if verdict != "answered":
            _log.warning("%s: %s", facts.get("query", facts.get("kind", "message")), verdict)
        return self.guard.send(reply, facts)

    def _handle(self, message: wire.Message, data: bytes, facts: Json) -> bytes:
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

    def _hello(self, lesson: str, header: Json, facts: Json) -> Json:
        loss = LOSSES.get(str(header.get("loss")))
        if loss is None:
            raise QueryRefused("a hello names the loss of the learner")
        self.guard.check_rows(self.holding.count or 1, "this teacher's")
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

    def _agree(self, lesson: str, header: Json) -> Json:
        known = self._lessons.get(lesson)
        if known is None or known.number:
            raise QueryRefused(f"lesson {lesson} " + ("has begun already" if known else "was never announced"))
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
        known.teacher = make_teacher(part, columns, loss(), header.get("classes"), self.guard)
        known.position, known.teachers = position, teachers
        known.state, known.last = known.teacher.start(), None
        return {}

    def _ask(self, message: wire.Message, data: bytes, facts: Json) -> bytes:
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
        self.guard.admit(query, known.rounds, known.teacher.rows.features)
        known.rounds += 1
        turn = Turn(number, known.position, known.teachers)
        state, sealed = known.teacher.answer(query, known.state, turn)
        known.state, known.number = state, number
        reply = wire.pack_reply(sealed)
        known.last = (digest, reply)
        return reply

    def _finish(self, lesson: str, facts: Json) -> Json:
        known, policy = self._lessons.get(lesson), self.guard.policy
        if known is None or known.state is None or known.teacher is None:
            raise QueryRefused(f"lesson {lesson!r} has no agreement with this teacher")
        if known.finished is None:
            if known.state.chosen is None:
                raise QueryRefused(f"lesson {lesson} ends before any row is chosen")
            try:
                known.written = self.holding.write_chosen(lesson, known.state.chosen, policy)
            except OSError as error:  # the choice stands; whoever asks again may find room
                _log.exception("the chosen rows could not be written")
                facts["fault"] = f"the chosen rows could not be written: {error.strerror}"
                return {"rows": len(known.state.chosen), "written": "nothing", "fault": facts["fault"]}
            known.finished = {"rows": len(known.state.chosen), "written": policy.write}
        return known.finished


def _told(error: Exception) -> str:
    """What the coordinator hears of an accident: never a text that may quote a row."""
    if isinstance(error, DataError):
        return "its rows do not suit this lesson; its own log says why"
    if isinstance(error, SuperteachError):
        return f"{type(error).__name__}; its own log says more"
    return f"an unexpected {type(error).__name__}; its own log says more"
