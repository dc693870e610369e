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
from superteach.line.queries import QUERIES, Query
from superteach.promises.audit import Audit
from superteach.promises.policy import NAMES, Policy
from superteach.types import Array

OPEN_DOOR = Policy((), frozenset(NAMES), least_rows=1, most_rounds=sys.maxsize, asynchronous=True)
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

    def release(self, query: Query[object], reply: Array, behind: Mapping[str, int], teacher: str) -> Sealed:
        """Let a reply go, or refuse; `behind` counts the rows of each set that the query says it runs over."""
        if type(query) not in QUERIES:
            raise QueryRefused(f"teacher {teacher} knows no query named {type(query).__name__}")
        self._check_query(query)
        if reply.shape != (query.reply_length,):
            raise TeachingError(
                f"teacher {teacher} has a reply of shape {reply.shape} to {query.name}, "
                f"which takes {query.reply_length} numbers"
            )
        for rows in query.behind:
            # An owner who lists a query that shows rows has said so; counts of few rows pass.
            if not query.shows_rows and (query.sums or rows == "all"):
                self.check_rows(behind[rows], _WORDS[rows])
        return Sealed(np.array(reply, dtype=np.float64), SEAL)

    def _check_query(self, query: Query[object]) -> None:
        if type(query).__name__ not in self.policy.queries:
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
