"""Ctrl-C, held back where it would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a child that is half started cannot be ended in an orderly way.

    Blocking the signal in this thread would not do: another one may take it, and it would be heard here all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are heard in the main thread alone
        return
    heard: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(signal.SIGINT, heard[0])
