"""The one door out of a teacher: no reply leaves but through `Guard.release`, which knows the privacy mode in force.

In one process the policy is `EVERYTHING_ALLOWED` and the mode "none" unless a lesson says otherwise: every query of the
list is answered, and the coordinator can read the rows. Replies pass the same function all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from superteach.exceptions import QueryRefused, TeachingError
from superteach.privacy import PRIVACY
from superteach.privacy.accounting import Mode
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import Policy
from superteach.protocol.messages import SEAL, Sealed
from superteach.protocol.queries import QUERIES, Private, Query
from superteach.types import Array

EVERYTHING_ALLOWED = Policy((), privacy=tuple(PRIVACY))
NO_PRIVACY = Mode()
MOST_REPLY = 1 << 22
"""Most numbers in a reply of a site (32 MB)."""
LONGEST = 1 << 12
"""Longest array in a question to a site, unless there are more columns."""


@dataclass(frozen=True, eq=False)
class Account:
    """What a lesson costs at a site: its ledger, the lesson's name, and facts to enter beside the payment."""

    ledger: Ledger
    lesson: str
    facts: Mapping[str, object] = field(default_factory=dict)

    def check(self, mode: Mode, people: int = 1) -> None:
        """Refuse a lesson that would overspend, before anything is computed."""
        self.ledger.check(self.lesson, people * mode.mu)

    def pay(self, mode: Mode, people: int = 1) -> None:
        """Enter the whole lesson, on the disk when this returns, or refuse: a second draw would be a second release."""
        if not self.ledger.pay(self.lesson, people * mode.mu, self.facts):
            raise QueryRefused(
                f"lesson {self.lesson!r} was paid for before, and its replies may have left; a second draw of noise would "
                "be a second release: begin another lesson"
            )


@dataclass(eq=False)
class Guard:
    """A teacher's door, for one lesson."""

    policy: Policy = EVERYTHING_ALLOWED
    mode: Mode = NO_PRIVACY
    account: Account | None = None
    """Where payments are entered; None: in one process nobody adds up lessons, and a lesson says so."""
    secret: int | None = None
    """Mixed into this teacher's draws, so that nobody else can repeat them; None: another one for each lesson."""
    released: dict[type, float] = field(default_factory=dict)
    """Parts of the lesson's budget that have left, by query."""

    def check_mode(self, privacy: str) -> None:
        """Refuse a privacy mode that the policy does not accept."""
        if privacy not in self.policy.privacy:
            accepted = " and ".join(map(repr, self.policy.privacy))
            raise QueryRefused(
                f"its policy accepts privacy {accepted}, not {privacy!r}: teach with that, or ask its owner to change "
                "`privacy` in the policy"
            )

    def under(self, mode: Mode, account: Account | None = None) -> Guard:
        """Make the same door for one lesson, or refuse before anything is computed or spent."""
        self.check_mode(mode.name)
        if mode.name == "dp" and account is not None:
            account.check(mode, self.policy.rows_per_person)
        return replace(self, mode=mode, account=account, released={})

    def check_query(self, query: Query[object]) -> None:
        """Refuse a query that is not answered in the mode in force; teachers check this before they compute."""
        if not query.keeps(self.mode.name):
            raise QueryRefused(f"privacy {self.mode.name!r} lets no reply to {query.name} pass")

    def admit(self, query: Query[object], features: int) -> None:
        """Refuse, before anything is computed, a question that the mode does not answer, or one too big."""
        self.check_query(query)
        most = max(LONGEST, features + 2)
        for value in vars(query).values():
            sizes = value.shape if isinstance(value, np.ndarray) else [len(value)] if isinstance(value, tuple) else []
            if max(sizes, default=0) > most:
                raise QueryRefused(f"{query.name} holds an array longer than {most}")
        if not query.varies and query.reply_length > MOST_REPLY:
            raise QueryRefused(f"{query.name} asks for {query.reply_length} numbers; {MOST_REPLY} are the most")

    def release(self, query: Query[object], reply: Array, teacher: str) -> Sealed:
        """Let a reply go, with noise where the mode asks for it, or refuse."""
        if type(query) not in QUERIES:
            raise QueryRefused(f"teacher {teacher} knows no query named {type(query).__name__}")
        if not query.fits(reply):
            raise TeachingError(
                f"teacher {teacher} has a reply of shape {reply.shape} to {query.name}, which is not as declared"
            )
        self.check_query(query)
        if self.mode.name == "none":
            return Sealed(np.array(reply, dtype=np.float64), SEAL)
        if isinstance(query, Private):
            return Sealed(self._with_noise(query, reply), SEAL)
        if not query.silent or query.reply_length:
            raise QueryRefused(
                f"privacy {self.mode.name!r} lets only an acknowledgement pass, and {query.name} has numbers"
            )
        return Sealed(np.zeros(0), SEAL)

    def _with_noise(self, query: Private, reply: Array) -> Array:
        """Pay for the lesson, then draw noise and add it, in whole steps of the grid."""
        kind = type(query)
        if kind in self.released:
            raise QueryRefused(f"{query.name} has left already: a second draw of noise would be a second release")
        if sum(self.released.values()) + query.release.part > 1.0 + 1e-9:
            raise QueryRefused(f"{query.name} would spend more than this lesson's ε={self.mode.epsilon:g}")
        grid = self.mode.grid(query.release)
        if not self.released and self.account is not None:
            self.account.pay(self.mode, self.policy.rows_per_person)
        self.released[kind] = query.release.part
        return np.asarray((grid.to_integers(reply) + grid.noise(len(reply))) * grid.step, dtype=np.float64)
