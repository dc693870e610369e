"""A fellow teacher that lies: what it adds to totals leads all teachers to other prices, and it hears the totals there.

It knows its own lies and may subtract them. What is left must be as noisy as promised, wherever prices have gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from superteach.line.queries import Private, Query
from superteach.promises.terms import PromiseTerms
from superteach.types import Array
from superteach_lab.audit.broken import as_kind
from superteach_lab.audit.empirical import noise_of
from superteach_lab.audit.recovery import Found
from superteach_lab.audit.transcript import Subject, Tapped, listen, spread_of

LIES = {"small": 3.0, "large": 1e3, "huge": 1e9}
"""Lengths of lies, in deviations of the noise that they are told beside."""
DOUBT = 1e-6
"""Chance below which noise is not what was promised."""


class Liar(Tapped):
    """Teachers of whom one lies; whoever listens knows the lies."""

    length = 0.0
    terms_kind: type[PromiseTerms] = PromiseTerms

    def keep(self, terms: PromiseTerms) -> None:
        """Keep a promise, and draw the lies from a fixed seed."""
        self._draw = np.random.default_rng(0)
        super().keep(as_kind(self.terms_kind, terms))

    def sum(self, query: Query[object], number: int) -> Array:
        """What all teachers are told: the total, and the lie."""
        total = super().sum(query, number)
        if not isinstance(query, Private) or not query.releases:
            return total
        lie = self._draw.standard_normal(len(total)) * spread_of(query, self.transcript.terms)
        return np.asarray(total + self.length * lie, dtype=np.float64)


def lead(
    subject: Subject, epsilon: float = 1.0, delta: float = 1e-6, kind: type[PromiseTerms] = PromiseTerms
) -> list[Found]:
    """Lie in three lengths under "epsilon", and hold the noise of what is heard against the promise."""
    found = []
    for name, length in LIES.items():
        tap: Any = type("Lies", (Liar,), {"length": length, "terms_kind": kind})
        transcript = listen(subject, "epsilon", tap, epsilon=epsilon, delta=delta).transcript
        noise = noise_of(subject, transcript, as_kind(PromiseTerms, transcript.terms))
        short = noise.chance < DOUBT
        said = f"noise at the prices it led to: {100.0 * noise.ratio:.0f} % of the least that is needed"
        said = f"{said}, too little at {noise.least}" if short else said
        rounds = len(transcript.rounds)
        found.append(Found(f"a fellow teacher that tells {name} lies", "epsilon", int(short), 1, None, rounds, said))
    return found
