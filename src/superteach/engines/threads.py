"""Teachers as threads in one process: the default engine, for simulation and for one owner's data."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from superteach.engines.base import add_up
from superteach.exceptions import DataError, SettingError, TeachingError, listed
from superteach.privacy.accounting import Mode
from superteach.privacy.guard import Guard
from superteach.privacy.shares import rounded
from superteach.protocol.messages import Answers, Sealed, Turn
from superteach.protocol.queries import EVERYTHING, Query
from superteach.types import Array, Positions

_SMALL = 1 << 19
"""Numbers of all teachers below which threads wait for each other longer than they work."""


class Threads:
    """Runs teachers on a few threads, never more busy threads than cores.

    A thread serves whole teachers, and the linear algebra library gets the cores that are left over:
    K ≥ cores teachers run on one thread each with a single-threaded library, one teacher alone lets the
    library use all cores that it was given.
    """

    def __init__(self, teachers: Sequence[Answers], threads: int | None = None) -> None:
        if not isinstance(teachers, Sequence) or not all(hasattr(one, "start") for one in teachers):
            raise DataError(f"Threads takes a list of teachers, got a {type(teachers).__name__}: Threads([teacher, …])")
        if threads is not None and threads < 1:
            raise SettingError(
                f"threads={threads!r} must be an int of at least 1, or None for as many as there are cores"
            )
        self._teachers = tuple(teachers)
        if not self._teachers:
            raise DataError("there is no teacher: at least one owner of rows is needed")
        widths = [int(teacher.rows.features) for teacher in self._teachers]
        if len(set(widths)) > 1:
            raise DataError(f"teachers have {listed(sorted(set(widths)))} columns; all of them need the same ones")
        self._states = [teacher.start() for teacher in self._teachers]
        self.names = tuple(teacher.name for teacher in self._teachers)
        self.features = widths[0]
        counts = [int(teacher.rows.count) for teacher in self._teachers]
        self.declared = tuple(map(rounded, counts))
        small = sum(counts) * self.features < _SMALL
        cores = threads or (1 if small else _cores())
        self._workers = min(cores, len(self._teachers))
        self._controller = ThreadpoolController()
        # Never more than the library has now: whoever gave it fewer has other work for the cores.
        most = min((library["num_threads"] for library in self._controller.info()), default=1)
        self._library_threads = max(1, min(cores // self._workers, most))
        self._shares = shares_of(counts, self._workers)
        self._pool: ThreadPoolExecutor | None = None
        self.most = (1.0,) * len(self._teachers)
        self._posts: deque[tuple[int, Query[object], int]] = deque()

    def keep(self, mode: Mode) -> None:
        """Put every teacher behind a guard of this privacy mode."""
        # Whoever owns this process owns all rows: "isolated" draws by the seed alone, so that lessons can be repeated.
        secret = 0 if mode.name == "isolated" else None
        self._teachers = tuple(teacher.under(Guard(mode=mode, secret=secret)) for teacher in self._teachers)
        self._states = [teacher.start() for teacher in self._teachers]

    def states(self) -> tuple[Any, ...]:
        """Return every teacher's own state, for the caller who owns all of them."""
        return tuple(self._states)

    def choose(self, rows: Positions) -> None:
        """Choose rows, numbered over all teachers and ascending, for the caller who owns all of them."""
        ends = np.cumsum([0, *(teacher.rows.count for teacher in self._teachers)])
        parts = np.split(rows, np.searchsorted(rows, ends[1:-1]))
        for place, (teacher, own) in enumerate(zip(self._teachers, parts, strict=True)):
            self._states[place] = teacher.choosing(self._states[place], own - ends[place])

    def sum(self, query: Query[object], number: int) -> Array:
        """Ask every teacher and add up the replies in roster order."""
        return add_up(query, self.gather(query, number))

    def gather(self, query: Query[object], number: int) -> list[Array]:
        """Ask every teacher and return the replies in roster order."""
        if query.changes == EVERYTHING:
            self._forget_posts()
        replies: list[Sealed | None] = [None] * len(self._teachers)
        given_up = False

        def serve(share: Sequence[int]) -> None:
            for position in share:
                if given_up:
                    return
                replies[position] = self._ask(position, query, number)

        # Always, also where products are small: the last bits of a sum must not depend on how many threads are free.
        with self._controller.limit(limits=self._library_threads):
            if self._workers == 1:
                serve(range(len(self._teachers)))
            else:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="teacher")
                try:
                    for done in [self._pool.submit(serve, share) for share in self._shares]:
                        done.result()
                finally:
                    given_up = True  # after Ctrl-C, or where one fails, others end with the teacher they are at
        return [reply.values for reply in replies if reply is not None]

    def post(self, position: int, query: Query[object], number: int) -> None:
        """Ask one teacher; in one process nobody is slower than another, so replies arrive in the order of posts."""
        self._posts.append((position, query, number))

    def arrival(self) -> tuple[int, Array]:
        """Return the reply to the oldest post."""
        position, query, number = self._posts.popleft()
        return position, self._ask(position, query, number).values

    def _forget_posts(self) -> None:
        """Teachers start afresh: what a lesson that failed has left open is not for the next."""
        self._posts.clear()

    def _ask(self, position: int, query: Query[object], number: int) -> Sealed:
        turn = Turn(number, position, len(self._teachers))
        state, sealed = self._teachers[position].answer(query, self._states[position], turn)
        if not isinstance(sealed, Sealed) or not query.fits(sealed.values):
            raise TeachingError(f"teacher {position} gave no sealed reply of the right length")
        self._states[position] = state
        return sealed

    def close(self) -> None:
        """End the threads; the states stay."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shares_of(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Split teachers over workers, the largest first to the least loaded, so that all have about equally many rows."""
    loads = [0] * workers
    shares: list[list[int]] = [[] for _ in range(workers)]
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        lightest = loads.index(min(loads))
        shares[lightest].append(position)
        loads[lightest] += sizes[position] + 1
    return shares
