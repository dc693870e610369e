"""Ctrl-C while a process is being started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from superteach_lab.processes.child import uninterrupted


def test_an_interruption_waits_until_the_end():
    """Whichever thread the system hands the signal to, the block runs through and the interruption follows."""
    done = []
    handler = signal.getsignal(signal.SIGINT)
    other = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT))

    def twice_interrupted():
        with uninterrupted():
            other.start()
            other.join()
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        twice_interrupted()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is handler


def test_nothing_follows_where_nothing_came():
    """Neither here, nor where interruptions are ignored, nor in another thread."""
    with uninterrupted():
        pass
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    entered = []

    def elsewhere():
        with uninterrupted():
            entered.append(True)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert entered == [True]


def test_children_of_tests_hear_interruptions():
    """Also where whoever started the tests ignores them, as a shell does for what it runs in the background."""
    asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    child = subprocess.run([sys.executable, "-I", "-c", asked], capture_output=True, text=True, check=True)
    assert child.stdout == "True\n"
