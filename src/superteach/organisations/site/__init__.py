"""A teacher at home: its rows, its policy, its audit log and its state, behind one door of bytes.

`Site.answer(bytes) -> bytes` is all that a transport needs. A lesson at a site is

    hello   who are you, which columns and labels do you have?      names and counts
    agree   these columns, these labels, this place in the roster   nothing
    ask     one query of the closed list                            one sealed array
    finish  the lesson is over                                      how many rows were chosen

under the promise "open", and under all others

    hello   who are you?                                            what the policy declares, a key, the ε that is left
    begin   this learner, this goal, this roster                    nothing
    step    the total of the round before                           this teacher's covered words of the next one
    finish  the lesson is over                                      nothing of the rows

and whatever goes wrong comes back as a refusal (the teacher's decision) or a failure (an accident), with a
reason that holds no value of a row. Details of accidents stay in the teacher's own log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import ThreadpoolController

from superteach import extensions
from superteach.errors import DataError, InputError, QueryRefused, SuperteachError
from superteach.line import wire
from superteach.line.messages import Turn
from superteach.line.queries import AskMoments, AskValues, Census, Query
from superteach.mathematics.losses import LOSSES
from superteach.organisations.site.follower import Follower
from superteach.organisations.site.rows import SECRET_BYTES, Holding
from superteach.privacy.guard import Bill, Guard
from superteach.privacy.keys import Keys
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import DECLARE
from superteach.teacher import Teacher
from superteach.teacher.inputs import make_teacher
from superteach.teacher.state import State
from superteach.types import Json
from superteach.versions import VERSION, misfit
from superteach.words import PROMISES

if TYPE_CHECKING:
    from superteach.privacy.rosters import Rosters

_log = logging.getLogger(__name__)


MOST_LESSONS = 64
"""Lessons that one process of a site remembers; an honest job has one, and one more for each teacher that is dropped. Rows
and state are kept for the last lesson that was agreed on, and for no other."""


@dataclass
class _Lesson:
    """What a site knows of the lesson it is in."""

    name: str
    promise: str
    number: int = 0
    """Of the last round."""
    position: int = 0
    teachers: int = 1
    teacher: Teacher | None = None
    state: State | None = None
    follower: Follower | None = None
    """Under a promise."""
    last: tuple[bytes, bytes] | None = None
    """Digest of the last message and the answer to it: asked twice, a question is answered once."""
    finished: Json | None = None


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
    ledger: Ledger | None = None
    """What rows have spent; without one no ε is promised."""
    rosters: Rosters | None = None
    """This site's part in masks; without it there are none."""
    _seal: str | None = None
    _lessons: dict[str, _Lesson] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._controller = ThreadpoolController()

    def answer(self, data: bytes) -> bytes:
        """Take one message and give one back, whatever comes in: nothing is raised."""
        with self._lock, self._controller.limit(limits=self.threads):
            return self._answer(data)

    def _answer(self, data: bytes) -> bytes:
        started = time.perf_counter()
        facts: Json = {"coordinator": self.coordinator}
        try:
            facts["bytes_in"] = len(data) if isinstance(data, bytes | bytearray | memoryview) else 0
            message = wire.unpack(data)
            self.guard.check_coordinator(self.coordinator, self.fingerprint)
            facts |= {"kind": message.kind, "shape": [list(array.shape) for array in (*message.arrays, *message.words)]}
            reply = self._handle(message, data, facts)
            verdict = "answered"
        except QueryRefused as error:
            verdict = f"refused: {error}"
            reply = wire.pack_no("refused", str(error))
        except Exception as error:  # an accident must not tell what the rows hold
            _log.exception("a message could not be answered")
            verdict = f"failed: {type(error).__name__}"
            reply = wire.pack_no("failed", _told(error))
        facts |= {"bytes_out": len(reply), "seconds": round(time.perf_counter() - started, 4), "verdict": verdict}
        if verdict != "answered":
            _log.warning("%s: %s", facts.get("query", facts.get("kind", "message")), verdict)
        return self.guard.send(reply, facts)

    def _handle(self, message: wire.Message, data: bytes, facts: Json) -> bytes:
        handlers = {"hello": self._hello, "agree": self._agree, "ask": self._ask, "begin": self._begin, "step": self._step,
                    "finish": self._finish}  # fmt: skip
        handler = handlers.get(message.kind)
        if handler is None:
            raise QueryRefused(f"a teacher does not take messages of kind {message.kind!r}")
        lesson = message.header["lesson"]
        if not 0 < len(lesson) <= 100 or not lesson.isprintable():
            raise QueryRefused("a message names its lesson")
        facts["lesson"] = lesson
        known = self._lessons.get(lesson)
        if message.kind == "hello":
            known = known or self._met(lesson, message.header)
        elif known is None:
            raise QueryRefused(f"lesson {lesson!r} has no agreement with this teacher: it was never announced")
        digest = hashlib.sha256(data).digest()
        if known.last is not None and known.last[0] == digest:
            facts["again"] = True
            return known.last[1]
        reply = handler(known, message, facts)
        if message.kind in ("ask", "begin", "step"):
            known.last = digest, reply
        return reply

    def _met(self, lesson: str, header: Json) -> _Lesson:
        promise = header["promise"]
        if odd := misfit(f"teacher {self.name}", VERSION, "the coordinator", str(header["version"])[:40]):
            raise QueryRefused(odd)
        if promise not in PROMISES:
            raise QueryRefused(f"a hello names the promise that is kept, one of {', '.join(PROMISES)}")
        self.guard.check_promise(promise)
        if len(self._lessons) >= MOST_LESSONS:
            raise QueryRefused(f"this process has met {MOST_LESSONS} lessons, which are the most")
        return self._lessons.setdefault(lesson, _Lesson(lesson, promise))

    def _hello(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        loss = LOSSES.get(message.header["loss"])
        if loss is None:
            raise QueryRefused("a hello names the loss of the learner")
        if known.number or known.promise != message.header["promise"]:
            raise QueryRefused(f"lesson {known.name} has begun already")
        facts["promise"] = known.promise
        if known.promise == "open":
            if self._seal is None:
                self._seal = self.holding.seal(self.secret)
            return wire.pack_facts({**self.holding.schema(loss.classifies), "seal": self._seal, "version": VERSION})
        declared = self.guard.policy.declared
        if declared is None or (loss.classifies and declared.labels is None):
            missing = "the labels" if declared else "columns, target and size"
            raise QueryRefused(
                f"its policy does not declare {missing} of its rows: its owner adds them with  {DECLARE}"
            )
        told: Json = {**declared.schema(loss.classifies), "deliver": self.guard.policy.deliver, "version": VERSION}
        if self.ledger is not None and known.promise == "epsilon":
            told |= {"left": self.ledger.left(self._keys), "delta": self.ledger.delta}
        if self.rosters is not None and self.rosters.allowed:
            told["hello"] = self.rosters.hello(known.name).as_dict()
        return wire.pack_facts(told)

    @cached_property
    def _keys(self) -> Keys:
        """Who each row is, from all that its owner's table has of it."""
        assert self.ledger is not None
        records = self.holding.records(self.guard.policy.identity)
        self.ledger.check_names(list(records))
        return self.ledger.keys(list(records.values()))

    def _begin(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        header, declared = message.header, self.guard.policy.declared
        if known.follower is not None or known.promise == "open" or declared is None:
            raise QueryRefused(f"lesson {known.name!r} cannot begin " + ("twice" if known.follower else "so"))
        names, position = header["names"], header["position"]
        if len(message.arrays) != 1 or not np.isfinite(message.arrays[0]).all():
            raise QueryRefused("a lesson begins with one goal, made of finite numbers")
        if not 0 <= position < len(names) or names[position] != self.name:
            raise QueryRefused("a lesson begins with this teacher's place in the roster")
        try:
            script = extensions.load(extensions.SCRIPTS, "prices").read(header["script"], message.arrays[0])
            hellos = [] if self.rosters is None else self.rosters.read(header["hellos"])
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise QueryRefused(f"this lesson cannot be taught: {error}") from None
        agreed = known.promise, len(names), declared.rows
        if (script.terms.promise, len(script.rows), *script.rows[position : position + 1]) != agreed:
            raise QueryRefused("the script is not the one of the hellos: promise, teachers and rows must be the same")
        labels, classes = declared.labels or (), header.get("classes")
        told = classes if script.learner.loss.classifies else [one for one in labels if not isinstance(one, str)]
        if not isinstance(told, list) or len(told) != len(labels) or any(one not in told for one in labels):
            raise QueryRefused("the policy declares other label values than this lesson has, or texts, not numbers")
        if len(set(names)) < len(names):  # noise is shared out by places, and a place without a teacher adds none
            raise QueryRefused("the roster names a teacher twice")
        if script.terms.masked and self.rosters is not None and {hello.name for hello in hellos} != set(names):
            raise QueryRefused("the roster of masks has other teachers than the lesson")
        bill = None
        if self.ledger is not None and script.terms.promise == "epsilon":
            about = {"coordinator": self.coordinator, "epsilon": script.terms.epsilon, "delta": script.terms.delta}
            bill = Bill(self.ledger, self._keys, known.name, about)
        guard = self.guard.under(script.terms, bill, self.rosters, known.name, hellos)
        if guard.masker is not None:
            order = json.dumps([header[part] for part in ("script", "names", "columns", "classes")], sort_keys=True)
            guard.masker.hear(order.encode(), message.arrays[0].tobytes())
        teacher = self._teacher(header, 0, script.learner.loss.name, guard).under(guard)
        self._forget_others(known)
        known.follower = Follower(teacher, script, tuple(names), position, script.terms)
        return wire.pack_facts({})

    def _step(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        follower, number = known.follower, message.header["number"]
        if follower is None or known.finished is not None:
            raise QueryRefused(f"lesson {known.name!r} " + ("is over" if known.finished else "has not begun"))
        facts["number"] = number
        if number != follower.number + 1:
            raise QueryRefused(f"round {follower.number + 1} is next, not {str(number)[:20]}")
        said = follower.step(message.words)
        if said is None:
            raise QueryRefused("the script is over, and there is nothing more to say")
        facts["query"], known.number = said.query, said.number
        return wire.pack_part(said.sealed, said.mark)

    def _agree(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        header = message.header
        if known.number or known.promise != "open":
            raise QueryRefused(f"lesson {known.name} " + ("has begun already" if known.number else "is not open"))
        if not 0 <= header["position"] < header["teachers"]:
            raise QueryRefused("an agreement gives a teacher its place in the roster")
        if not 0 <= header["first_id"] < 1 << 62:
            raise QueryRefused("an agreement names the first row's id")
        known.teacher = self._teacher(header, header["first_id"], header["loss"], self.guard)
        self._forget_others(known)
        known.position, known.teachers = header["position"], header["teachers"]
        known.state = known.teacher.start()
        return wire.pack_facts({})

    def _forget_others(self, known: _Lesson) -> None:
        """Let rows and state of earlier lessons go: what a coordinator can make a site remember has an end."""
        for name, other in self._lessons.items():
            if other is not known and (other.teacher or other.follower):
                if other.follower is not None:
                    other.follower.leave()
                self._lessons[name] = _Lesson(name, other.promise, other.number, finished=other.finished or {})

    def _teacher(self, agreed: Json, first: int, name: str, guard: Guard) -> Teacher:
        loss, columns = LOSSES.get(name), agreed["columns"]
        if loss is None:
            raise QueryRefused(f"no loss is named {name[:60]!r}")
        checked = guard.terms.promise != "open"  # when it joined
        return make_teacher(self.holding.part(columns, first), columns, loss(), agreed["classes"], guard, checked)

    def _ask(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        facts["query"] = message.header["query"][:60]
        delivers = known.follower is not None and known.finished is not None and self.guard.policy.deliver
        if known.promise != "open" and not delivers:
            raise QueryRefused(f"promise {known.promise!r} has a script, and no question is answered beside it")
        question = wire.read_question(message)
        query, number = question.query, question.number
        facts |= {"number": number, "query": query.name}
        if delivers:
            self._deliver(known, query)
        elif known.finished is not None:
            raise QueryRefused(f"lesson {known.name} is over")
        if known.teacher is None or known.state is None:
            raise QueryRefused(f"lesson {known.name!r} has no agreement with this teacher")
        if number <= known.number:
            raise QueryRefused(f"round {number} was asked after round {known.number}")
        known.teacher.guard.admit(query, known.teacher.rows.features)
        columns = known.teacher.rows.features
        if odd := query.misfit(columns, columns + bool(known.state.scaling.constant), known.teachers):
            raise QueryRefused(f"{query.name} does not fit this lesson: {odd}")
        known.state, sealed = known.teacher.answer(query, known.state, Turn(number, known.position, known.teachers))
        known.number = number
        return wire.pack_reply(sealed)

    def _deliver(self, known: _Lesson, query: Query[object]) -> None:
        """Open what the fit of the learner on chosen rows asks, and enter it in the ledger first: no promise covers it."""
        fits = isinstance(query, Census | AskMoments | AskValues) and query.rows == "chosen"
        if not fits or getattr(query, "function", "loss") != "loss":
            raise QueryRefused("deliver = true answers what a fit on the chosen rows asks, and nothing else")
        if known.teacher is None and known.follower is not None:
            if self.ledger is not None:
                self.ledger.note({"delivered": known.name, "coordinator": self.coordinator, "promise": known.promise})
            known.teacher, known.number = known.follower.teacher.under(Guard()), 0
            known.position, known.teachers = 0, len(known.follower.names)

    def _finish(self, known: _Lesson, message: wire.Message, facts: Json) -> bytes:
        if known.finished is not None:
            return wire.pack_facts(known.finished)
        if known.follower is not None and known.state is None:
            if known.follower.number == 0 or known.follower.step(message.words) is not None:
                raise QueryRefused(f"lesson {known.name!r} is not over")
            known.state = known.follower.state
        state, policy = known.state, self.guard.policy
        if state is None:
            raise QueryRefused(f"lesson {known.name!r} has no agreement with this teacher")
        if state.chosen is None:
            raise QueryRefused(f"lesson {known.name} ends before any row is chosen")
        counted = {"rows": len(state.chosen)} if known.promise == "open" else {}  # else a count would leave
        try:
            self.holding.write_chosen(known.name, state.chosen, policy, state.note)
        except OSError as error:  # the choice stands; whoever asks again may find room
            _log.exception("the chosen rows could not be written")
            facts["fault"] = f"the chosen rows could not be written: {error.strerror}"
            return wire.pack_facts({**counted, "written": "nothing", "fault": facts["fault"]})
        known.finished = {**counted, "written": policy.write}
        return wire.pack_facts(known.finished)


def _told(error: Exception) -> str:
    """Say what the coordinator hears of an accident: never a text that may quote a row."""
    if isinstance(error, DataError):
        return "its rows do not suit this lesson; its own log says why"
    kind = type(error).__name__
    return f"{kind if isinstance(error, SuperteachError) else f'an unexpected {kind}'}; its own log says more"
