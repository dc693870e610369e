"""What is known about how few rows carry a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from superteach.robustness.regions import RegionProof, Slice, verify
from superteach.types import Json, Positions

Proof = Literal["regions", "intervals", "none"]
PROOFS: dict[Proof, str] = {
    "regions": "linear programmes over regions of the free coefficients",
    "intervals": "intervals of what removed rows can do to each other",
    "none": "no proof for this question",
}


@dataclass(frozen=True, eq=False)
class Step:
    """The best removal of one size that was found."""

    rows: Positions
    """Rows removed, ascending."""
    coefficient: float
    """The coefficient without them."""
    distance: float
    """What still lacks: the coefficient's distance from the value, or the near end of its interval from 0."""

    @property
    def count(self) -> int:
        """How many rows are removed."""
        return len(self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Robustness:
    """How few rows carry a finding: at least `least` must go, and without `rows` it no longer holds."""

    question: str
    """What is to happen, in words."""
    total: int
    """All rows."""
    before: float
    """The coefficient on all rows."""
    rows: Positions | None
    """Rows without which it happens, ascending, by a refit; None where none were found."""
    after: float | None
    """The coefficient without them."""
    least: int
    """Fewer rows are proved not to be enough; 1 says nothing."""
    proof: Proof
    """How that is proved."""
    path: tuple[Step, ...]
    """The best removal found of 1, 2, … rows."""
    certificate: tuple[Slice, RegionProof] | None = None
    """What a proof over regions consists of."""
    error: float | None = None
    """The standard error on all rows, where significance is asked about."""
    names: tuple[str, str] | None = None
    """First and second place of a leaderboard."""

    @property
    def exact(self) -> bool:
        """Whether the rows found are proved to be the fewest."""
        return self.rows is not None and self.least >= len(self.rows)

    def verify(self) -> bool:
        """Check a proof over regions anew, one sum for each region; False where there is none."""
        return self.certificate is not None and verify(*self.certificate)

    def sentence(self) -> str:
        """Say what is known, in words."""
        if self.rows is None:
            tried = f"No removal was found by which {self.question}"
            return f"{tried}; fewer than {self.least:,} of {self.total:,} rows are proved not to be enough."
        count, after = len(self.rows), "" if self.after is None else f" ({self.before:.4g} becomes {self.after:.4g})"
        what = "votes" if self.names else "rows"
        rows = f"{count:,} of {self.total:,} {what}"
        if count == 1:
            return f"Without 1 of {self.total:,} {what} {self.question}{after}."
        if self.exact:
            return f"Without {rows} {self.question}{after}; no {count - 1:,} are enough, which is proved."
        known = (
            f"fewer than {self.least:,} are proved not to be enough"
            if self.least > 1
            else "there is no proof from below"
        )
        return f"Without {rows} {self.question}{after}; {known}."

    def __repr__(self) -> str:
        found = "none found" if self.rows is None else f"{len(self.rows)} found"
        after = "" if self.after is None else f", {self.before:.4g} becomes {self.after:.4g}"
        return f"<Robustness: {self.least} proved, {found} of {self.total} rows{after}>"

    def as_dict(self) -> Json:
        """Return values for JSON; rows by number, from 0."""
        return {
            "question": self.question,
            "sentence": self.sentence(),
            "total": self.total,
            "before": self.before,
            "after": self.after,
            "standard_error": self.error,
            "proved": self.least,
            "found": None if self.rows is None else len(self.rows),
            "proof": self.proof,
            "rows": None if self.rows is None else self.rows.tolist(),
            "path": [
                {"rows": step.rows.tolist(), "coefficient": step.coefficient, "distance": step.distance}
                for step in self.path
            ],
        }
