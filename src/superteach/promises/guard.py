"""The one door out of a teacher: no reply leaves but through `Guard.release`, which knows the policy in force.

In one process the policy is `OPEN_DOOR`, the promise "open": every query of the list is answered, and the coordinator can
read the rows. Replies pass the same function all the same.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superteach.errors import QueryRefused, TeachingError
from superteach.line import wire
from superteach.line.messages import SEAL, Sealed
from superteach.line.queries import QUERIES, SCRIPT, Private, Query
from superteach.promises.audit import Audit
from superteach.promises.fixed import Words
from superteach.promises.masks import Masker
from superteach.promises.policy import NAMES, Policy
from superteach.promises.rosters import Identity, Rosters
from superteach.promises.terms import OPEN_TERMS, PromiseTerms
from superteach.types import Array

OPEN_DOOR = Policy(
    (), frozenset(NAMES) | {kind.__name__ for kind in SCRIPT}, least_rows=1, most_rounds=sys.maxsize, asynchronous=True
)
MOST_REPLY = 1 << 22
"""Most numbers in a reply of a site (32 MB)."""
LONGEST = 1 << 12
"""Longest array in a question to a site, unless there are more columns."""
_WORDS = {"all": "this teacher's", "chosen": "those chosen here", "drawn": "those drawn here", "priced": "those drawn here",
          "positive": "this teacher's of one class", "negative": "this teacher's of one class"}  # fmt: skip
_log = logging.getLogger(__name__)


@dataclass
class Guard:
    """Holds a teacher's policy against every question and every reply, and writes the audit log where there is one."""

    policy: Policy = OPEN_DOOR
    audit: Audit | None = None
    terms: PromiseTerms = OPEN_TERMS
    """The promise in force."""
    masker: Masker | None = None
    spent: float = 0.0
    """Shares of the lesson's budget that were released."""

    def check_coordinator(self, name: str, fingerprint: str) -> None:
        """Refuse a coordinator whose certificate is not in the policy, by name or by fingerprint."""
        if not {name, f"sha256:{fingerprint}"} & set(self.policy.coordinators):
            raise QueryRefused(f"the policy does not list the coordinator {name!r} (sha256:{fingerprint})")

    def check_rows(self, rows: int, what: str) -> None:
        """Refuse a sum over `rows` rows where the policy wants more; a sum over none shows none."""
        if 0 < rows < self.policy.least_rows:
            raise QueryRefused(f"the policy wants sums over at least {self.policy.least_rows} rows, {what} are fewer")

    def admit(self, query: Query[object], rounds: int, features: int) -> None:
        """Refuse, before anything is computed, a question that `release` would refuse, one too many, or one too big.

        `rounds` questions of the lesson were answered before this one.
        """
        self._check_query(query)
        if rounds >= self.policy.most_rounds:
            raise QueryRefused(f"the policy allows {self.policy.most_rounds} rounds in a lesson, and they are used up")
        most = max(LONGEST, features + 2)
        for value in vars(query).values():
            sizes = value.shape if isinstance(value, np.ndarray) else [len(value)] if isinstance(value, tuple) else []
            if max(sizes, default=0) > most:
                raise QueryRefused(f"{query.name} holds an array longer than {most}")
        if query.reply_length > MOST_REPLY:
            raise QueryRefused(f"{query.name} asks for {query.reply_length} numbers; {MOST_REPLY} are the most")

    def release(
        self, query: Query[object], reply: Array, behind: Mapping[str, int], teacher: str, number: int = 0
    ) -> Sealed:
        """Let a reply go, covered as the promise asks, or refuse.

        `behind` counts the rows of each set that the query says it runs over; `number` is the round's.
        """
        if type(query) not in QUERIES + SCRIPT:
            raise QueryRefused(f"teacher {teacher} knows no query named {type(query).__name__}")
        if self.terms.promise == "open":
            self._check_query(query)
        if reply.shape != (query.reply_length,):
            raise TeachingError(
                f"teacher {teacher} has a reply of shape {reply.shape} to {query.name}, "
                f"which takes {query.reply_length} numbers"
            )
        if self.terms.promise != "open":
            return Sealed(self._covered(query, reply, number), SEAL)
        for rows in query.behind:
            # An owner who lists a query that shows rows has said so; counts of few rows pass.
            if not query.shows_rows and (query.sums or rows == "all"):
                self.check_rows(behind[rows], _WORDS[rows])
        return Sealed(np.array(reply, dtype=np.float64), SEAL)

    def _covered(self, query: Query[object], reply: Array, number: int) -> Words:
        """What leaves under a promise: noise is paid for before it is drawn, and no lesson spends more than its budget."""
        if not query.keeps(self.terms.promise):
            raise QueryRefused(f"promise {self.terms.promise!r} lets no answer to {query.name} pass")
        if self.terms.promise == "epsilon" and isinstance(query, Private):
            shares = [part.share for part in query.releases]
            if not all(share > 0.0 for share in shares):
                raise QueryRefused(f"{query.name} asks for shares {shares} of ε: each must be above 0")
            self.spent += sum(shares)
            if self.spent > 1.0 + 1e-9:
                raise QueryRefused(f"{query.name} would spend more than this lesson's ε={self.terms.epsilon:g}")
        return self.terms.cover(query, reply, number, self.masker)

    def _check_query(self, query: Query[object]) -> None:
        if type(query).__name__ not in self.policy.queries and type(query) not in SCRIPT:
            raise QueryRefused(f"the policy does not allow {type(query).__name__}")
        if query.asynchronous and not self.policy.asynchronous:
            raise QueryRefused(
                "the policy does not allow asynchronous rounds, in which no sum hides a reply (asynchronous = false)"
            )

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
    """Guards of teachers in one process, who exchange keys as teachers on machines of their own would."""
    guards = [Guard(terms=terms) for _ in range(terms.teachers)]
    if terms.masked:
        people = [Rosters(Identity.ephemeral(f"{position:06}")) for position in range(terms.teachers)]
        hellos = [person.hello("one process", 0) for person in people]
        for guard, person in zip(guards, people, strict=True):
            guard.masker = person.join("one process", 0, hellos)
    return guards
