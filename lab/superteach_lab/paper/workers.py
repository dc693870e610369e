"""Cells done side by side: one process per core, each with one thread, so that small pools fill the cores too."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from superteach.exceptions import SuperteachError, TeachingError
from superteach_lab.paper import bench
from superteach_lab.paper.plan import Step
from superteach_lab.processes.child import Child
from superteach_lab.records import Record, Records

Planned = tuple[Step, Records]
Begin = Callable[[Step], None]


def cores() -> int:
    """How many cells are done side by side unless told otherwise."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finished(tasks: Sequence[Planned], workers: int, begin: Begin) -> Iterator[tuple[Planned, Record]]:
    """Every task with its result, in the order they end; the caller keeps each before it asks for the next."""
    if workers > 1 and len(tasks) > 1:
        yield from _Crew(min(workers, len(tasks)), begin).finished(list(tasks))
        return
    for task in tasks:
        step, records = task
        begin(step)
        needs = step.given(records)
        assert needs is not None, "a plan lists a step after those it needs"
        yield task, step.work(**needs)


@dataclass
class _Worker:
    child: Child
    task: Planned | None = None
    pool: str = ""


class _Crew:
    """Hands out steps whose needs are met, by preference to the worker that has their pool."""

    def __init__(self, count: int, begin: Begin) -> None:
        self._begin = begin
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(Child(_serve)))
        except BaseException:
            self._end()
            raise

    def finished(self, waiting: list[Planned]) -> Iterator[tuple[Planned, Record]]:
        """Every task with its result, in the order they end."""
        try:
            while waiting or any(worker.task for worker in self._workers):
                for worker in self._workers:
                    if worker.task is None and waiting:
                        self._hand_out(worker, waiting)
                busy = [worker for worker in self._workers if worker.task]
                assert busy, "no step's needs are met"
                ready = wait([worker.child.line for worker in busy])
                for worker in busy:
                    if worker.child.line in ready:
                        task, worker.task = worker.task, None
                        assert task is not None
                        yield task, _received(worker, task)
        finally:
            self._end()

    def _end(self) -> None:
        for worker in self._workers:
            worker.child.end()

    def _hand_out(self, worker: _Worker, waiting: list[Planned]) -> None:
        held = {other.pool for other in self._workers if other is not worker}

        def order(number: int) -> tuple[bool, bool, int]:
            pool = waiting[number][0].pool
            return (pool != worker.pool, pool in held, number)

        for number in sorted(range(len(waiting)), key=order):
            step, records = waiting[number]
            needs = step.given(records)
            if needs is not None:
                worker.task, worker.pool = waiting.pop(number), step.pool
                self._begin(step)
                with suppress(OSError):  # a worker that is gone is noticed where its result is awaited
                    worker.child.line.send((step.work, needs))
                return


def _received(worker: _Worker, task: Planned) -> Record:
    try:
        result = worker.child.hear()
    except EOFError:
        raise TeachingError(
            f"the process that worked on {task[0].cell} ended by itself (exit {worker.child.code()}), perhaps for "
            "want of memory; the same command goes on, --workers 1 needs less"
        ) from None
    if isinstance(result, BaseException):
        raise result
    return dict(result)


def _serve(line: Connection) -> None:
    """Do what comes down the line, until it is closed or whoever holds the other end is gone."""
    bench.THREADS = 1
    while True:
        try:
            work, needs = line.recv()
        except EOFError:
            return
        line.send(_done(work, needs))


def _done(work: Callable[..., Record], needs: Record) -> Any:
    try:
        return work(**needs)
    except SuperteachError as error:
        # Some of them are made from other things than their words, and could not be read at the other end.
        return TeachingError(str(error))
    except Exception as error:  # a fault of ours: the place it comes from would be lost on the way
        return TeachingError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
