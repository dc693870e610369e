"""A teacher's ledger: what each of its rows has ever spent, on the teacher's own disk, written before any answer.

One file holds all of it: a line with the digest of what follows, a line of JSON (the secret of the keys and every
entry), then the rows' keys in order and the μ² that each has spent (16 bytes per row, however many lessons there were).
A change is written beside it, brought to the disk and moved into its place, so that a kill or a full disk leaves the
ledger as it was or as it will be, and the answer goes out after that. What is left of a row is the row's own: rows that
come and go change nothing for the others, and a row that comes back finds what it had spent. Nothing here protects from
an owner who deletes the whole folder or puts back an old copy of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from superteach.errors import BudgetSpent, QueryRefused, SettingError
from superteach.privacy.accounting import epsilon_of, mu_of
from superteach.privacy.keys import Keys, row_keys
from superteach.processes.disk import write_bytes
from superteach.types import Array, Json, Raw

ROUNDING = 1e-9
"""Part of the lifetime's μ² by which spending may pass it, for sums of doubles and the search for ε round."""
MARK = b"This folder holds a ledger. Where the file 'ledger' is gone, nothing is answered.\n"
"""Text of the lock file once a ledger was written: one that is deleted by accident is missed, not begun anew."""


@dataclass(frozen=True, eq=False)
class Spent:
    """All that the file says: keys in order, the μ² spent by each, the entries, and the secret behind the keys."""

    keys: Keys
    squares: Array
    entries: list[Json]
    secret: str
    names: list[str]
    """Columns by which rows are known."""

    def by(self, keys: Keys) -> Array:
        """Return the μ² that these rows have spent; a row never seen has spent nothing."""
        if not len(self.keys):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.squares[at], 0.0)


class Ledger:
    """The lifetime budget (ε, δ) of every row of one teacher."""

    def __init__(self, folder: str | Path, epsilon: float, delta: float) -> None:
        """Open the ledger in `folder`, or begin it; the budget is the owner's to change, what is spent stays spent."""
        self.epsilon, self.delta = epsilon, delta
        self.total = mu_of(epsilon, delta) ** 2
        self.path = Path(folder) / "ledger"
        with self._locked() as spent:
            self._secret = bytes.fromhex(spent.secret)

    def check_names(self, names: list[str]) -> None:
        """Hold on to the columns by which rows are known; refuse others, by which all would have spent nothing."""
        with self._locked() as spent:
            if spent.names != names:
                if len(spent.keys):
                    raise QueryRefused("its ledger knows rows by other columns than now: its owner puts these back")
                self._write(replace(spent, names=names))

    def keys(self, columns: Sequence[Raw]) -> Keys:
        """Make the rows' keys under this ledger's own secret; see `row_keys`."""
        return row_keys(columns, self._secret)

    def spent(self, keys: Keys) -> Array:
        """Return the μ² that each of these rows has spent in its life."""
        with self._locked() as spent:
            return spent.by(keys)

    def left(self, keys: Keys) -> float:
        """Return the ε that one more lesson over all these rows may have, at the ledger's δ."""
        return self._left(float(self.spent(keys).max(initial=0.0)))

    def spend(self, lesson: str, keys: Keys, mu: float, facts: Mapping[str, object]) -> bool:
        """Take a lesson's μ² from every row in it, on the disk when this returns, or refuse and take nothing.

        False says that a lesson of this name was paid for before, over whatever rows: who asks must not learn whether
        they are the same. Its answers may have left, and a second draw of noise would be a second release.
        """
        if not 0 < mu < math.inf or not lesson:
            raise SettingError(f"lesson={lesson!r}, mu={mu!r}: a lesson has a name and spends a finite mu above 0")
        present = _once(keys)
        if present.dtype != np.uint64:
            raise SettingError(f"keys of type {present.dtype} are none: take the keys that Ledger.keys gives")
        bill = {"lesson": lesson, "mu": float(mu), "rows": len(present)}
        with self._locked() as spent:
            if any(entry.get("lesson") == lesson for entry in spent.entries):
                return False
            most = float(spent.by(present).max(initial=0.0))
            if most + mu**2 > self.total * (1 + ROUNDING):
                raise BudgetSpent(
                    f"lesson {lesson!r} asks for ε = {epsilon_of(mu, self.delta):.4g} at δ = {self.delta:g}; of ε = "
                    f"{self.epsilon:g} for their life its rows have spent {epsilon_of(math.sqrt(most), self.delta):.4g}"
                    f" and have {self._left(most):.4g} left. Nothing was spent now: ask for less, or leave out the "
                    "rows that have spent most"
                )
            known = _once(np.concatenate([spent.keys, present]))
            squares = spent.by(known)
            squares[np.searchsorted(known, present)] += mu**2
            bill |= {"epsilon": epsilon_of(mu, self.delta), "delta": self.delta, "lifetime": self.epsilon}
            self._write(replace(spent, keys=known, squares=squares), {**bill, "facts": dict(facts)})
        return True

    def note(self, facts: Mapping[str, object]) -> None:
        """Enter a release that no ε covers, such as a delivered fit."""
        with self._locked() as spent:
            self._write(spent, {"note": dict(facts)})

    def entries(self) -> list[Json]:
        """Return every lesson and note, the oldest first."""
        with self._locked() as spent:
            return spent.entries

    def _left(self, square: float) -> float:
        return epsilon_of(math.sqrt(max(self.total - square, 0.0)), self.delta)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Spent]:
        """Give what is spent, while no other process or thread changes it."""
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
                        self._write(Spent(np.empty(0, np.uint64), np.empty(0), [], secrets.token_hex(32), []))
                    os.write(lock, MARK)
                    os.fsync(lock)
                yield self._read()
            finally:
                os.close(lock)
        except OSError as error:
            reason = error.strerror or error
            raise QueryRefused(f"the ledger cannot be kept ({reason}), so nothing is answered: mend its disk") from None

    def _read(self) -> Spent:
        try:
            digest, _, content = self.path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            raise _damaged("the file 'ledger' is gone") from None
        if digest.decode("latin-1") != _digest(content):
            raise _damaged(f"its {len(content)} bytes do not fit their digest")
        head, _, body = content.partition(b"\n")
        stored = json.loads(head)
        keys, squares = np.frombuffer(body, "<u8").reshape(2, -1)
        numbers = keys.astype(np.uint64), squares.view("<f8").astype(np.float64)
        return Spent(*numbers, stored["entries"], stored["secret"], stored.get("names", []))

    def _write(self, spent: Spent, entry: Json | None = None) -> None:
        """Put a whole new file in place of the old one, on the disk when this returns."""
        if entry is not None:
            entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}
        entries = [*spent.entries, *([entry] if entry else [])]
        head = json.dumps({"secret": spent.secret, "names": spent.names, "entries": entries}).encode() + b"\n"
        content = head + spent.keys.astype("<u8").tobytes() + spent.squares.astype("<f8").tobytes()
        for cut in self.path.parent.glob(".ledger.*"):  # of a writer that was killed
            cut.unlink()
        write_bytes(self.path, _digest(content).encode() + b"\n" + content, private=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _once(keys: Keys) -> Keys:
    """Sort keys, each once; np.unique goes through a hash table and takes ten times as long."""
    ordered: Keys = np.sort(keys)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _damaged(seen: str) -> QueryRefused:
    return QueryRefused(
        f"the ledger is damaged: {seen}. What its rows have spent is not known, so nothing is answered: "
        "put back a copy made after the last lesson; without one these rows cannot answer again"
    )
