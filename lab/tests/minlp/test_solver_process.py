"""A solver that crashes, hangs, eats memory or is interrupted: honest words, its last point, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from superteach.losses import Squared
from superteach_lab import minlp

HERE = Path(__file__).parent
X = np.random.default_rng(0).standard_normal((5, 2))
y = np.array([1.0, 0.5, -0.3, 0.2, 0.9])
PAIR = ("gradient", "highs")


def processes() -> dict[int, tuple[int, str]]:
    """Every living process by its number: its parent and its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if status[0] != "Z":
                found[int(entry.name)] = (int(status[1]), command)
    return found


def environment(number: int) -> list[str]:
    """What a process was started with; nothing where it has just ended or is somebody else's."""
    try:
        return (Path("/proc") / str(number) / "environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def children(parent: int) -> list[int]:
    return [number for number, (above, _) in processes().items() if above == parent]


@pytest.fixture
def deed(monkeypatch):
    """`deed(number, …)` lets the misbehaving solver do something."""
    monkeypatch.setitem(minlp.SOLVERS, PAIR, "fakes")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))

    def do(number: int, **limits):
        goal = np.array([float(number), 0.0])
        limits = {"seconds": 30.0, "gigabytes": 2.0} | limits
        return minlp.solve(X, y, Squared(), 1.0, goal, 2, formulation=PAIR[0], solver=PAIR[1], **limits)

    return do


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (1, "crashed: signal 11"),
        (3, "out of memory: limit 2 GB"),
        (4, "failed: ValueError: no such luck"),
        (5, "crashed: exit status 3"),
    ],
)
def test_every_end_has_its_word_and_keeps_the_last_point(deed, number, status):
    """The point and the bound told before the end come back, whatever the end was."""
    found = deed(number)
    assert found.status == status
    np.testing.assert_array_equal(found.rows, [0, 1])
    assert found.bound == 1e-3
    assert found.seconds < 30.0


def test_a_solver_is_believed_as_far_as_its_bound(deed):
    """A claim of an optimum is "optimal" where the bound reaches the objective, and a gap where it does not."""
    for far in (deed(6), deed(7)):
        assert far.status == f"finished, gap {100 * (1.0 - 1e-3 / far.objective):.3g} %"
        np.testing.assert_array_equal(far.rows, [0, 1])
    near = deed(10)
    assert (near.status, near.gap) == ("optimal", 0.0)


def test_a_limit_without_a_point_says_so(deed):
    """No point, no risk, no objective."""
    found = deed(9)
    assert found.status == "time limit, no point found"
    assert (found.rows, found.risk, found.objective, found.gap) == (None, None, None, None)
    assert deed(8).status.startswith("time limit, gap ")


def test_an_overrun_is_cut_off_with_all_it_started(deed, monkeypatch):
    """A solver that ignores its limit ends at ours, and its own child with it."""
    before = set(children(os.getpid()))
    mark = f"MARK={os.getpid()} {time.monotonic_ns()}"  # so that tests beside this one are not mistaken for it
    monkeypatch.setenv(*mark.split("="))
    found = deed(2, seconds=8.0)
    assert found.status.startswith("time limit, gap ")
    assert 8.0 <= found.seconds < 30.0  # it would have slept for a minute
    np.testing.assert_array_equal(found.rows, [0, 1])
    assert set(children(os.getpid())) <= before
    assert [command for number, (_, command) in processes().items() if mark in environment(number)] == []


def test_the_gap_is_that_of_bound_and_objective(deed):
    """12 % means that a better choice could be at most 12 % lower."""
    found = deed(8)
    assert found.gap == pytest.approx(1.0 - 1e-3 / found.objective)
    assert found.status == f"time limit, gap {100 * found.gap:.3g} %"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_no_orphan_is_left(how):
    """Ctrl-C, a polite end and a rude one: the solver's process goes with the one that asked for it."""
    script = (
        "import numpy as np; from superteach_lab import minlp; from superteach.losses import Squared; "
        "minlp.SOLVERS['gradient', 'highs'] = 'fakes'; X = np.eye(2); "
        "minlp.solve(X, np.ones(2), Squared(), 1.0, np.array([2.0, 0.0]), 1, formulation='gradient', seconds=60)"
    )
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    caller = subprocess.Popen(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    try:
        solver = until(lambda: children(caller.pid))[0]
        until(lambda: children(solver))  # it has got as far as its own sleep
        caller.send_signal(how)
        caller.wait(timeout=20)
    finally:
        caller.kill()
    assert until(lambda: solver not in processes())


@pytest.mark.parametrize("at_work", [False, True], ids=["at once", "at work"])
def test_an_interruption_reaches_solvers_in_other_threads(deed, at_work):
    """Within `interruptible` a KeyboardInterrupt ends what other threads wait for, and nothing new starts.

    At once is as soon as there is a process, which may not have been noted yet; at work it has a child of its own.
    """
    from threading import Thread

    from superteach.exceptions import TeachingError

    ends = []

    def work() -> None:
        for _ in range(2):
            try:
                deed(2, seconds=120.0)
            except TeachingError as error:
                ends.append(str(error))

    before, thread = set(children(os.getpid())), Thread(target=work)

    def interrupted() -> None:
        with minlp.interruptible():
            thread.start()
            until(lambda: [one for one in set(children(os.getpid())) - before if not at_work or children(one)], 60.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert ["was ended" in ends[0], "was not started" in ends[1]] == [True, True]
    assert deed(10).status == "optimal"  # the next run is free to start again


def until(wanted, seconds: float = 20.0):
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := wanted():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")
