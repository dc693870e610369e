"""What a site does with its rows: it answers questions behind its guard, chooses rows, writes them for their owner."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from threadpoolctl import ThreadpoolController

from superteach.exceptions import DataError, InputError, QueryRefused, SettingError, SuperteachError
from superteach.federated.rows import SiteTable, read_table
from superteach.federated.site import Site, SiteLesson
from superteach.io.atomic import stamp, write_durably
from superteach.io.validation import make_teacher
from superteach.learner import Learner
from superteach.packages import VERSION, version_mismatch
from superteach.privacy.accounting import Mode
from superteach.privacy.guard import Account, Guard
from superteach.privacy.ledger import AuditLog, Ledger
from superteach.privacy.policy import Policy, read_policy
from superteach.protocol.messages import Turn
from superteach.protocol.queries import Private, Query
from superteach.protocol.wire import numbers_as_json, query_from_json
from superteach.teacher import Teacher
from superteach.teacher.state import State
from superteach.types import Json

READINGS = 3
"""Tries to read a file that somebody is writing."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _SiteAccount(Account):
    """An account whose site keeps every reply before it leaves.

    So a lesson that is paid for and has no reply was killed between the two: nothing has left, and noise may be drawn again.
    """

    audit: AuditLog | None = None
    """Where every reply with noise is noted."""

    def pay(self, mode: Mode, people: int = 1) -> None:
        """Enter the whole lesson, unless it is entered; refuse where the audit log knows of a reply that was lost here."""
        paid_now = self.ledger.pay(self.lesson, people * mode.mu, self.facts)
        if not paid_now and self.audit is not None and self.lesson in self.audit.values("released"):
            raise QueryRefused(
                f"lesson {self.lesson[:12]} was paid for before and its reply is gone from this site's folder; a second "
                "draw of noise would be a second release: put back a newer copy of the folder, or begin another lesson"
            )


@dataclass
class _Session:
    """A lesson while its site's process remembers it."""

    learner: Learner
    guard: Guard
    position: int
    teachers: int
    table: SiteTable | None = None
    teacher: Teacher | None = None
    state: State = field(default_factory=State)
    answered: set[int] = field(default_factory=set)
    """Numbers of the questions that led to this state."""


class Runner:
    """Answers for a site, whose rows it reads when it first needs them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.audit = AuditLog(site.folder / "audit.jsonl")
        self._sessions: dict[str, _Session] = {}
        self._rows: tuple[object, SiteTable] | None = None
        """The rows as last read, and what they depend on."""
        self._controller = ThreadpoolController()

    def policy(self) -> Policy:
        """Read and check the policy."""
        return read_policy(self.site.folder / "policy.toml")

    def ledger(self, policy: Policy) -> Ledger:
        """Open the account of this site's table."""
        return Ledger(self.site.folder / "ledger", policy.epsilon, policy.delta, policy.lesson, self.audit)

    def work(self) -> bool:
        """Answer every question that waits; tell whether there was one. Choosing rows comes later: see `finish`."""
        for lesson in list(self.site.lessons.values()):
            if (lesson.folder / "charge").exists():
                self._charge(lesson)
        waiting = self.site.pending()
        for lesson, number in waiting:
            self.answer(lesson, number)
        return bool(waiting)

    def finish(self) -> bool:
        """Choose rows, write them, close lessons: what nobody waits for."""
        waiting = self.site.unfinished()
        for lesson in waiting:
            with self._controller.limit(limits=1):  # so that the last bits are the same everywhere
                written = self._choose(lesson)
            if lesson.receipt is not None and written:
                self._sessions.pop(lesson.order.id, None)
                self.site.close(lesson)
        return bool(waiting)

    def answer(self, lesson: SiteLesson, number: int) -> None:
        """Reply to one question, whatever it is: with numbers, or with the reason why there are none."""
        facts: Json = {"lesson": lesson.order.id, "number": number, "coordinator": lesson.order.author}
        try:
            lesson.questions[number].check_dates()
            with self._controller.limit(limits=1):
                query, numbers, review = self._answer(lesson, number)
            noisy = isinstance(query, Private)
            paid = lesson.order.body["price"] if noisy else None
            self.site.reply(lesson, number, "ok", numbers, paid=paid, review=review)
            # After the reply is kept and before anybody sees it: see `_SiteAccount`.
            self.audit.add({**facts, "query": query.name, **({"released": lesson.order.id} if noisy else {})})
        except QueryRefused as error:
            self._refuse(lesson, number, facts, "refused", str(error))
        except Exception as error:  # an accident must not tell what the rows hold
            _log.debug("a question could not be answered", exc_info=True)
            self.site.notice(f"lesson {lesson.name}, question {number}: {type(error).__name__}: {error}")
            self._refuse(lesson, number, facts, "failed", _reason(error))

    def _refuse(self, lesson: SiteLesson, number: int, facts: Json, status: str, reason: str) -> None:
        """Say why there are no numbers, to the coordinator and to the owner."""
        self._sessions.pop(lesson.order.id, None)
        self.site.notice(f"lesson {lesson.name}, question {number} was {status}: {reason}")
        try:
            self.audit.add({**facts, "verdict": f"{status}: {reason}"})
        except QueryRefused as error:
            self.site.notice(str(error))
        self.site.reply(lesson, number, status, reason=reason)

    def _answer(self, lesson: SiteLesson, number: int) -> tuple[Query[object], list[object], bool]:
        """Return the query, the numbers of its reply, and whether a person is to see it first."""
        session = self._session(lesson)
        review = session.guard.policy.review
        query = query_from_json(lesson.questions[number].body["query"])
        self._check(lesson, session, number, query)
        if query.silent:  # the reply depends on no row, so it goes first
            sealed = session.guard.release(query, np.zeros(0), self.site.name)
            write_durably(lesson.folder / "choose", str(number).encode())
            return query, numbers_as_json(sealed.values.tolist()), review
        self._catch_up(lesson, session, number)
        assert session.teacher is not None
        turn = Turn(number, session.position, session.teachers)
        session.state, sealed = session.teacher.answer(query, session.state, turn)
        session.answered.add(number)
        return query, numbers_as_json(sealed.values.tolist()), review

    def _check(self, lesson: SiteLesson, session: _Session, number: int, query: Query[object]) -> None:
        """Refuse a query that does not fit the lesson or the policy, before anything is computed or spent."""
        body, policy = lesson.order.body, session.guard.policy
        columns = len(body["columns"])
        session.guard.admit(query, columns)
        if odd := query.misfit(columns, columns + bool(session.learner.column), session.teachers):
            raise QueryRefused(f"{query.name} does not fit this lesson: {odd}")
        if query.silent:
            for other, question in lesson.questions.items():
                answered = other != number and other in lesson.replies and lesson.replies[other].body["status"] == "ok"
                if answered and question.body["query"]["name"] == query.name:
                    raise QueryRefused(
                        f"question {other} of this lesson had rows chosen already; a lesson does so once"
                    )
            rows, most = vars(query)["rows"][session.position], body["roster"][session.position]["rows"]
            allowed = min(int(policy.share * body["size"] + 1e-9), most)
            if not 0 <= rows <= allowed:
                raise QueryRefused(
                    f"the lesson asks it for {rows} rows, and its policy allows {allowed}: give this lesson up and the "
                    "command again, so that shares are dealt anew"
                )

    def _session(self, lesson: SiteLesson) -> _Session:
        """Return what is remembered of a lesson, or begin; refuse a lesson that the policy does not accept."""
        policy = self.policy()
        session = self._sessions.get(lesson.order.id)
        if session is not None and session.guard.policy == policy:
            return session
        body = lesson.order.body
        if odd := version_mismatch(f"site {self.site.name}", VERSION, "the coordinator", body["version"][:40]):
            raise QueryRefused(odd)
        try:
            learner = Learner.from_dict(body["learner"])
            price = body["price"] or {}
            mode = Mode(body["privacy"], **price)
        except InputError as error:
            raise QueryRefused(f"this lesson cannot be taught: {error}") from None
        if (mode.name == "dp") != bool(price):
            raise QueryRefused("the order names a price, which lessons under 'dp' have and no others")
        position = self._place(body, policy, learner)
        account = None
        if mode.name == "dp":
            facts = {"coordinator": lesson.order.author, **price}
            account = _SiteAccount(self.ledger(policy), lesson.order.id, facts, self.audit)
        paid = account is not None and any(one["lesson"] == lesson.order.id for one in account.ledger.entries())
        guard = Guard(policy).under(mode, None if paid else account)
        guard.account = account
        guard.secret = self.secret(lesson)
        for number, reply in lesson.replies.items():
            query = query_from_json(lesson.questions[number].body["query"])
            if isinstance(query, Private) and reply.body["status"] == "ok":
                guard.released[type(query)] = query.release.part
        session = _Session(learner, guard, position, len(body["roster"]))
        self._sessions[lesson.order.id] = session
        return session

    def secret(self, lesson: SiteLesson) -> int:
        """Return what is mixed into draws: of this site and this lesson, so that a choice is the same after a kill."""
        mixed = hashlib.sha256(self.site.key.private_bytes_raw() + lesson.order.id.encode()).digest()
        return int.from_bytes(mixed[:7], "big")

    def _charge(self, lesson: SiteLesson) -> None:
        """Enter a lesson whose reply left from a newer copy of this folder than the one that was put back."""
        marker = lesson.folder / "charge"
        try:
            policy, price = self.policy(), lesson.order.body["price"]
            if price:
                mode, ledger = Mode(lesson.order.body["privacy"], **price), self.ledger(policy)
                for name in (lesson.order.id, *(f"{lesson.order.id} {word}" for word in marker.read_text().split())):
                    ledger.enter(name, policy.rows_per_person * mode.mu, {"restored": True})
            marker.unlink()
        except SuperteachError as error:
            self.site.notice(f"lesson {lesson.name} left this site before, and cannot be charged: {error}")

    def _place(self, body: Json, policy: Policy, learner: Learner) -> int:
        """Find this site in the roster, and check what the order says of its rows against the policy."""
        names = [seat["name"] for seat in body["roster"]]
        if len(set(names)) < len(names):
            raise QueryRefused("the roster names a site twice")
        position, declared = names.index(self.site.name), policy.declared
        seat = body["roster"][position]
        if seat["key"] != self.site.public:
            raise QueryRefused(
                f"the order has another key for {self.site.name}: in the coordinator's federation.toml it is now "
                f"{self.site.public}"
            )
        if declared is None:
            raise QueryRefused("its policy declares nothing of its rows: its owner adds the table [declared]")
        if seat["rows"] != declared.rows or body["target"] != declared.target:
            raise QueryRefused(
                f"the order has {seat['rows']} rows and the target {body['target'][:60]!r} for {self.site.name}, and its "
                f"policy declares {declared.rows} and {declared.target!r}: give this lesson up and the command again"
            )
        if odd := sorted(set(body["columns"]) - set(declared.columns)):
            raise QueryRefused(f"its policy declares no column {odd[0][:60]!r}")
        if learner.loss.classifies and set(body["classes"] or ()) != set(declared.labels or ()):
            raise QueryRefused(f"its policy declares other labels than {body['classes']!r:.80}")
        if not learner.loss.classifies and any(isinstance(label, str) for label in declared.labels or ()):
            raise QueryRefused("its policy declares labels that are texts, and the learner predicts numbers")
        return position

    def _table(self, policy: Policy) -> SiteTable:
        """Read the rows that the policy lets take part, unless file and policy are those of the last reading."""
        path, settings = Path(str(self.site.settings["data"])), self.site.settings
        for _ in range(READINGS):  # the file may be replaced while it is read
            now = (stamp(path), policy.declared, policy.identity, policy.rows_per_person)
            if self._rows is None or self._rows[0] != now:
                table = read_table(self.site.name, path, settings["target"], settings.get("features"))
                table.check(policy)
                self._rows = now, table.bounded(policy)
            if now[0] == stamp(path):
                return self._rows[1]
        raise SettingError(f"{str(path)!r} changed while it was read: answer once it stays as it is")

    def _teacher(self, lesson: SiteLesson, session: _Session) -> Teacher:
        """Make a teacher of the rows, as the file and the policy are now."""
        body, policy = lesson.order.body, session.guard.policy
        rows = session.table = self._table(policy)
        assert policy.declared is not None
        if session.guard.mode.name == "none" and rows.count > policy.declared.rows:
            raise SettingError(
                f"privacy 'none' counts rows, and the policy declares {policy.declared.rows} of {rows.count}: raise "
                "declared.rows"
            )
        first = sum(seat["rows"] for seat in body["roster"][: session.position])
        part = rows.part(body["columns"], first)
        checked = session.guard.mode.name != "none"
        return make_teacher(part, body["columns"], session.learner.loss, body["classes"], session.guard, checked)

    def _catch_up(self, lesson: SiteLesson, session: _Session, number: int) -> None:
        """Let a teacher hear again what changed its memory, after a new start of this process."""
        if session.teacher is None:
            teacher = self._teacher(lesson, session)
            session.teacher, session.state = teacher.under(session.guard), teacher.start()
        for earlier in sorted(lesson.questions):
            if earlier >= number or earlier in session.answered:
                continue
            query = query_from_json(lesson.questions[earlier].body["query"])
            session.answered.add(earlier)
            if query.changes and not isinstance(query, Private):
                turn = Turn(earlier, session.position, session.teachers)
                session.state, _ = session.teacher.answer(query, session.state, turn)

    def _choose(self, lesson: SiteLesson) -> bool:
        """Choose rows where a question asked for it, and write them for their owner, who hears how that came out.

        False: there was no room on the disk, and there may be later.
        """
        marker, none = lesson.folder / "choose", lesson.order.body["privacy"] == "none"
        outcome = lesson.receipt.body["outcome"] if lesson.receipt else ""
        if outcome == "aborted" or not (marker.exists() or (none and outcome == "taught")):
            return True
        try:
            session = self._session(lesson)
            self._catch_up(lesson, session, 1 << 30)
            state, policy = session.state, session.guard.policy
            if state.chosen is not None:
                assert session.table is not None
                path = session.table.write_chosen(lesson.name, state.chosen, policy, state.note)
                where = f"; {policy.write} are in {path}" if path else ""
                self.site.notice(f"lesson {lesson.name}: {len(state.chosen)} rows were chosen{where}. {state.note}")
        except Exception as error:
            self.site.notice(f"lesson {lesson.name}: rows could not be chosen or written: {error}")
            _log.debug("rows could not be chosen or written", exc_info=True)
            if isinstance(error, OSError):
                return False
        marker.unlink(missing_ok=True)
        return True


def _reason(error: Exception) -> str:
    """Say what the coordinator hears of an accident: never a text that may quote a row."""
    if isinstance(error, DataError):
        return "its rows do not suit this lesson; its own status says why"
    if isinstance(error, SettingError):
        return "its policy or its file has a fault; its own status says which"
    kind = type(error).__name__
    return f"{kind if isinstance(error, SuperteachError) else f'an unexpected {kind}'}; its own status says more"
