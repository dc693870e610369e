"""A teacher's ledger: what its table has ever spent, on the teacher's own disk, written before any reply; and its audit log.

There is one account for the whole table, not one for each row. It charges every row with every lesson, also rows that came
later, so it never charges too little, and nothing about the rows decides what is charged: no cell, no type, no order, no
file that is put in another's place makes a table new, and neither a refusal nor what is left tells of any row. What it
costs: rows that come later share a budget that others have spent before them.

One file holds it: a line with the digest of what follows, then JSON. A change is written beside it, brought to the disk and
moved into its place, so that a kill or a full disk leaves the ledger as it was or as it will be, and the reply goes out
after that. Payments are noted in the audit log too: an old copy of the ledger that is put back is noticed there. Nothing
here protects from an owner who puts back or deletes both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from superteach.exceptions import BudgetSpent, QueryRefused, SettingError
from superteach.io.atomic import write_durably
from superteach.privacy.accounting import epsilon_of, mu_of
from superteach.types import Json

ROUNDING = 1e-9
"""Part of a budget's μ² by which spending may pass it, for sums of doubles and the search for ε round."""
MARK = b"This folder holds a ledger. Where the file 'ledger' is gone, nothing is answered.\n"
"""Text of the lock file once a ledger was written: one that is deleted by accident is missed, not begun anew."""


class AuditLog:
    """Time, coordinator, query, shapes, bytes and verdict of every message, one line of JSON each; never a value."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def add(self, facts: Mapping[str, object]) -> None:
        """Add one line at the end; without a record there is no answer."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(handle).st_size
                cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # by a full disk: what follows stays readable
                data = b"\n" * cut + line.encode() + b"\n"
                written = os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            raise QueryRefused(f"the audit log cannot be written ({error.strerror}), so nothing is answered") from None
        if written != len(data):
            raise QueryRefused("the audit log cannot be written (no space left), so nothing is answered")

    def values(self, fact: str) -> list[Any]:
        """Return what every line that has a fact says of it, the oldest first."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise QueryRefused(f"the audit log cannot be read ({error.strerror}), so nothing is answered") from None
        name, values = f'"{fact}"'.encode(), []
        for line in lines:
            if name in line:  # without a look at the other lines, of which there may be many
                with contextlib.suppress(ValueError):  # a line that a full disk cut off
                    values += [value for key, value in json.loads(line).items() if key == fact]
        return values


class Ledger:
    """The lifetime budget (ε, δ) of one teacher's table, and what lessons have taken from it."""

    def __init__(
        self,
        folder: str | Path,
        epsilon: float,
        delta: float,
        lesson: float | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """Open the ledger in `folder`, or begin it; the budget is the owner's to change, what is spent stays spent.

        `lesson` is the largest ε of a single lesson (None: the whole budget). `audit` is where payments are noted too.
        """
        self.epsilon, self.delta = epsilon, delta
        self.total = mu_of(epsilon, delta) ** 2
        self.cap = self.total if lesson is None else min(mu_of(lesson, delta) ** 2, self.total)
        self.path = Path(folder) / "ledger"
        self._audit = audit
        with self._locked():
            pass

    @property
    def spent(self) -> float:
        """The μ² that all lessons have taken."""
        return _sum(self.entries())

    @property
    def left(self) -> float:
        """The ε that one more lesson may have, at the ledger's δ, as far as the whole budget goes."""
        return epsilon_of(math.sqrt(max(self.total - self.spent, 0.0)), self.delta)

    def entries(self) -> list[Json]:
        """Return every lesson, the oldest first."""
        with self._locked() as entries:
            return entries

    def check(self, lesson: str, mu: float) -> None:
        """Refuse a lesson that `pay` would refuse, and take nothing."""
        with self._locked() as entries:
            self._check(entries, lesson, mu)

    def pay(self, lesson: str, mu: float, facts: Mapping[str, object]) -> bool:
        """Take a lesson's μ², on the disk when this returns, or refuse and take nothing.

        False says that a lesson of this name was paid for before. Its replies may have left, and a second draw of noise
        would be a second release.
        """
        return self._enter(lesson, mu, facts, checked=True)

    def enter(self, lesson: str, mu: float, facts: Mapping[str, object]) -> None:
        """Enter a lesson whose replies have left already, whatever budget there is for it."""
        self._enter(lesson, mu, facts, checked=False)

    def _enter(self, lesson: str, mu: float, facts: Mapping[str, object], checked: bool) -> bool:
        with self._locked() as entries:
            if any(entry["lesson"] == lesson for entry in entries):
                return False
            if checked:
                self._check(entries, lesson, mu)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            cost = {"mu": mu, "epsilon": epsilon_of(mu, self.delta), "delta": self.delta, "lifetime": self.epsilon}
            self._write([*entries, {"time": now, "lesson": lesson, **cost, "facts": dict(facts)}])
            if self._audit is not None:
                self._audit.add({"paid": lesson, "payments": len(entries) + 1})
        return True

    def _check(self, entries: list[Json], lesson: str, mu: float) -> None:
        if not 0 < mu < math.inf or not lesson:
            raise SettingError(f"lesson={lesson!r}, mu={mu!r}: a lesson has a name and spends a finite mu above 0")
        asked, spent = f"ε = {epsilon_of(mu, self.delta):.4g} at δ = {self.delta:g}", _sum(entries)
        if mu**2 > self.cap * (1 + ROUNDING):
            most = epsilon_of(math.sqrt(self.cap), self.delta)
            raise BudgetSpent(
                f"lesson {lesson!r} asks for {asked}, and its policy allows a lesson ε = {most:.4g} at most. Nothing was "
                "spent: ask for less"
            )
        if spent + mu**2 > self.total * (1 + ROUNDING):
            left = epsilon_of(math.sqrt(max(self.total - spent, 0.0)), self.delta)
            raise BudgetSpent(
                f"lesson {lesson!r} asks for {asked}; of ε = {self.epsilon:g} for its life this teacher's table has "
                f"{left:.4g} left. Nothing was spent: ask for less, or teach with privacy 'isolated', which costs nothing"
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[Json]]:
        """Give the entries, while no other process or thread changes them."""
        try:
            import fcntl
        except ImportError:
            raise SettingError(
                "a ledger needs file locks as Linux and macOS have them; keep it on such a system"
            ) from None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_name("ledger.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not os.fstat(lock).st_size:
                    if not self.path.exists():
                        self._write([])
                    os.write(lock, MARK)
                    os.fsync(lock)
                yield self._read()
            finally:
                os.close(lock)
        except OSError as error:
            reason = error.strerror or error
            raise QueryRefused(f"the ledger cannot be kept ({reason}), so nothing is answered: mend its disk") from None

    def _read(self) -> list[Json]:
        try:
            digest, _, content = self.path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            raise _damaged("the file 'ledger' is gone") from None
        if digest.decode("latin-1") != _digest(content):
            raise _damaged(f"its {len(content)} bytes do not fit their digest")
        entries: list[Json] = json.loads(content)["entries"]
        noted = 0 if self._audit is None else max(self._audit.values("payments"), default=0)
        if noted > len(entries):
            raise _damaged(f"it has {len(entries)} payments, and the audit log noted {noted}: it is an old copy")
        return entries

    def _write(self, entries: list[Json]) -> None:
        """Put a whole new file in place of the old one, on the disk when this returns."""
        content = json.dumps({"entries": entries}, indent=1).encode()
        for cut in self.path.parent.glob(".ledger.*"):  # of a writer that was killed
            cut.unlink()
        write_durably(self.path, _digest(content).encode() + b"\n" + content)


def _sum(entries: list[Json]) -> float:
    return math.fsum(float(entry["mu"]) ** 2 for entry in entries)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _damaged(seen: str) -> QueryRefused:
    return QueryRefused(
        f"the ledger is damaged: {seen}. What its table has spent is not known, so nothing is answered: "
        "put back a copy made after the last lesson; without one this table cannot answer again"
    )
