"""Child processes: they are heard, limited and ended, with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from superteach_lab.processes.child import Child

WAYS = pytest.mark.parametrize("warm", [(), ("json",)], ids=["fresh", "warm"])


def tell(line, *words):
    for word in words:
        line.send(word)


def echo(line):
    line.send(line.recv() + 1)


def leave(line, code):
    os._exit(code)


def crash(line):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(line):
    """Start a process of its own, name it, and never come back."""
    line.send(subprocess.Popen(["sleep", "62.5"]).pid)
    time.sleep(60.0)


def grow(line):
    try:
        held = bytearray(1 << 31)
    except MemoryError:
        line.send("no memory")
    else:
        line.send(len(held))


def threads(line):
    line.send((os.environ.get("OMP_NUM_THREADS"), os.getpgid(0) == os.getpid()))


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 10.0
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_there(pid)


@WAYS
def test_messages_arrive_in_order_and_then_the_end(warm):
    with Child(tell, "one", [2], warm=warm) as child:
        assert [child.hear(30.0), child.hear(30.0)] == ["one", [2]]
        with pytest.raises(EOFError):
            child.hear(30.0)
        assert child.code() == 0


@WAYS
def test_a_child_hears_its_parent(warm):
    with Child(echo, warm=warm) as child:
        child.line.send(41)
        assert child.hear(30.0) == 42


@WAYS
@pytest.mark.parametrize(("work", "code"), [((leave, 3), 3), ((crash,), -signal.SIGSEGV)])
def test_a_child_that_leaves_says_how(warm, work, code):
    with Child(*work, warm=warm) as child:
        with pytest.raises(EOFError):
            child.hear(30.0)
        assert child.code() == code


@WAYS
def test_whatever_a_child_started_ends_with_it(warm):
    with Child(hang, warm=warm) as child:
        started = child.hear(30.0)
        with pytest.raises(TimeoutError):
            child.hear(0.1)
        assert is_there(started)
    assert is_gone(started)
    assert is_gone(child.pid)


def test_memory_ends_at_the_limit():
    with Child(grow, gigabytes=1.0) as child:
        assert child.hear(30.0) == "no memory"


def test_a_fresh_child_has_one_thread_per_library_and_a_group_of_its_own():
    with Child(threads) as child:
        assert child.hear(30.0) == ("1", True)


@pytest.mark.parametrize("way", ["()", "('json',)"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_a_child_ends_with_its_parent(tmp_path, way, how):
    """However the parent went: Ctrl-C, or a rude end that leaves it no time for anything."""
    script = tmp_path / "parent.py"
    # A script without a guard: a fresh child must not run it a second time.
    guard = "if __name__ == '__main__':" if way != "()" else "if True:"
    script.write_text(
        "import sys; from superteach_lab.processes.child import Child; import test_child\n"
        f"{guard}\n"
        f"    with Child(test_child.hang, warm={way}) as child:\n"
        "        print(child.pid, child.hear(30.0), flush=True); child.hear(30.0)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        child = int(parent.stdout.readline().split()[0])
        parent.send_signal(how)
        parent.wait(20.0)
        assert is_gone(child)
    finally:
        parent.kill()
        parent.stdout.close()
