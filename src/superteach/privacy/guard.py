"""The one door out of a teacher: no reply leaves but through `Guard.release`, which knows the promise in force.

In one process the policy is `OPEN_DOOR`, the promise "open": every query of the list is answered, and the coordinator can
read the rows. Replies pass the same function all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from superteach.errors import BudgetSpent, QueryRefused, SettingError, TeachingError
from superteach.line import wire
from superteach.line.messages import SEAL, Sealed
from superteach.line.queries import QUERIES, SCRIPT, Private, Query
from superteach.privacy.accounting import epsilon_of
from superteach.privacy.audit_log import Audit
from superteach.privacy.fixed import Words
from superteach.privacy.keys import Keys
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import Policy
from superteach.privacy.terms import OPEN_TERMS, PromiseTerms
from superteach.types import Array
from superteach.words import PROMISES

if TYPE_CHECKING:
    from superteach.privacy.masks import Masker
    from superteach.privacy.rosters import Hello, Rosters

OPEN_DOOR = Policy((), "open")
MOST_REPLY = 1 << 22
"""Most numbers in a reply of a site (32 MB)."""
LONGEST = 1 << 12
"""Longest array in a question to a site, unless there are more columns."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Bill:
    """What a lesson takes from a teacher's rows, to be entered in its ledger before the first number leaves."""

    ledger: Ledger
    keys: Keys
    lesson: str
    facts: Mapping[str, object] = field(default_factory=dict)

    def check(self, terms: PromiseTerms) -> None:
        """Refuse a lesson that would overspend, before anything is computed."""
        left = self.ledger.left(self.keys)
        if not can_pay(left, self.ledger.delta, terms):
            raise BudgetSpent(
                f"this lesson asks for ε = {terms.epsilon:g} at δ = {terms.delta:g}, and of ε = {self.ledger.epsilon:g} "
                f"for their life this teacher's rows have {left:.4g} left; nothing was spent"
            )

    def pay(self, mu: float) -> None:
        """Enter the whole lesson, on the disk when this returns, or refuse."""
        if not self.ledger.spend(self.lesson, self.keys, mu, self.facts):
            raise QueryRefused(
                f"lesson {self.lesson!r} was paid for before, and its answers may have left; a second draw of noise would "
                "be a second release: begin another lesson"
            )


def after(left: float, delta: float, terms: PromiseTerms) -> float:
    """Return the ε at `delta` that rows have left after a lesson on these terms, of `left` before it."""
    square = replace(terms, epsilon=left, delta=delta).mu ** 2 - terms.mu**2 if left > 0.0 else 0.0
    return epsilon_of(max(square, 0.0) ** 0.5, delta)


def can_pay(left: float, delta: float, terms: PromiseTerms) -> bool:
    """Tell whether rows that have ε = `left` at `delta` left can pay for a lesson on these terms."""
    return left > 0.0 and terms.mu <= replace(terms, epsilon=left, delta=delta).mu * (1.0 + 1e-9)


@dataclass
class Guard:
    """Holds a teacher's policy against every question and every reply, and writes the audit log where there is one."""

    policy: Policy = OPEN_DOOR
    audit: Audit | None = None
    terms: PromiseTerms = OPEN_TERMS
    """The promise in force."""
    masker: Masker | None = None
    bill: Bill | None = None
    """What is paid with the first number under "epsilon"; none in one process, where nothing is kept."""
    spent: float = 0.0
    """Shares of the lesson's budget that were released."""

    def check_coordinator(self, name: str, fingerprint: str) -> None:
        """Refuse a coordinator whose certificate is not in the policy, by name or by fingerprint."""
        if not {name, f"sha256:{fingerprint}"} & set(self.policy.coordinators):
            raise QueryRefused(f"the policy does not list the coordinator {name!r} (sha256:{fingerprint})")

    def check_promise(self, promise: str) -> None:
        """Refuse a promise that is weaker than the policy's."""
        order = list(PROMISES)
        if order.index(promise) > order.index(self.policy.promise):
            raise QueryRefused(
                f"this lesson promises {promise!r}, and the policy accepts nothing weaker than {self.policy.promise!r}: ask "
                f"with --promise {self.policy.promise}"
            )

    def under(
        self, terms: PromiseTerms, bill: Bill | None, rosters: Rosters | None, lesson: str, hellos: list[Hello]
    ) -> Guard:
        """Make the same door for one lesson on these terms, or refuse before anything is computed or spent."""
        self.check_promise(terms.promise)
        if terms.colluders is not None and terms.masked and terms.colluders < terms.teachers // 3:
            raise QueryRefused(
                f"colluders={terms.colluders} is less than a third of {terms.teachers} teachers, its least"
            )
        masker = None
        if terms.masked:
            if rosters is None or not rosters.allowed:
                raise QueryRefused(
                    "the policy lists no certificates of teachers to share masks with: its owner adds them under [masks] "
                    "teachers, or ask with --promise epsilon --no-masks"
                )
            masker = rosters.join(lesson, hellos)
        if terms.promise == "epsilon":
            if bill is None:
                raise QueryRefused("this teacher keeps no ledger, so it cannot promise an ε: join from a start-up kit")
            bill.check(terms)
        return replace(self, terms=terms, masker=masker, bill=bill, spent=0.0)

    def admit(self, query: Query[object], features: int) -> None:
        """Refuse, before anything is computed, a question that no promise lets pass, or one too big."""
        self.check_promise("open")
        most = max(LONGEST, features + 2)
        for value in vars(query).values():
            sizes = value.shape if isinstance(value, np.ndarray) else [len(value)] if isinstance(value, tuple) else []
            if max(sizes, default=0) > most:
                raise QueryRefused(f"{query.name} holds an array longer than {most}")
        if query.reply_length > MOST_REPLY:
            raise QueryRefused(f"{query.name} asks for {query.reply_length} numbers; {MOST_REPLY} are the most")

    def release(self, query: Query[object], reply: Array, teacher: str, number: int = 0) -> Sealed:
        """Let a reply to round `number` go, covered as the promise asks, or refuse."""
        if type(query) not in QUERIES + SCRIPT:
            raise QueryRefused(f"teacher {teacher} knows no query named {type(query).__name__}")
        if reply.shape != (query.reply_length,):
            raise TeachingError(
                f"teacher {teacher} has a reply of shape {reply.shape} to {query.name}, "
                f"which takes {query.reply_length} numbers"
            )
        if self.terms.promise != "open":
            return Sealed(self._covered(query, reply, number), SEAL)
        self.check_promise("open")
        return Sealed(np.array(reply, dtype=np.float64), SEAL)

    def check_query(self, query: Query[object]) -> None:
        """Refuse a query that is not answered under the promise in force; teachers check this before they compute."""
        if not query.keeps(self.terms.promise):
            raise QueryRefused(f"promise {self.terms.promise!r} lets no answer to {query.name} pass")

    def _covered(self, query: Query[object], reply: Array, number: int) -> Words:
        """Cover what leaves under a promise: noise is paid for before it is drawn, and no lesson passes its budget."""
        self.check_query(query)
        if self.terms.promise == "epsilon" and isinstance(query, Private) and query.releases:
            shares = [part.share for part in query.releases]
            if not all(share > 0.0 for share in shares):
                raise QueryRefused(f"{query.name} asks for shares {shares} of ε: each must be above 0")
            if not self.spent and self.bill is not None:
                self.bill.pay(self.terms.mu)
            self.spent += sum(shares)
            if self.spent > 1.0 + 1e-9:
                raise QueryRefused(f"{query.name} would spend more than this lesson's ε={self.terms.epsilon:g}")
        return self.terms.cover(query, reply, number, self.masker)

    def record(self, facts: Mapping[str, object]) -> None:
        """Write `facts` of a message into the audit log, or refuse where that cannot be."""
        if self.audit is not None:
            self.audit.add(facts)

    def send(self, message: bytes, facts: Mapping[str, object]) -> bytes:
        """Write `facts` of a message into the audit log, then let the message go; without a record, refuse."""
        try:
            self.record(facts)
        except QueryRefused as error:
            _log.error("%s", error)
            return wire.pack_no("refused", str(error))
        return message


def simulated(terms: PromiseTerms) -> list[Guard]:
    """Make guards of teachers in one process, with keys for masks where the terms ask for them."""
    if not terms.masked:
        return [Guard(terms=terms) for _ in range(terms.teachers)]
    try:
        from superteach.privacy.masks import in_one_process
    except ImportError:
        raise SettingError(
            "masks need cryptography, which is not installed: run  pip install 'superteach[private]'"
        ) from None
    return [Guard(terms=terms, masker=masker) for masker in in_one_process(terms.teachers)]
