"""A line on which things break in a stated way at a stated message."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np

from superteach.errors import TeacherLost
from superteach.line import wire
from superteach.organisations.site import Site
from superteach.organisations.site.rows import own_secret
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from tests.loopback import Loopback


class Killed(BaseException):
    """The coordinator's process ends here: no handler of its own runs."""


class FaultyLine(Loopback):
    """Sites behind a loopback; `strike` breaks something, `heal` mends it."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self.sites = dict(sites)
        super().__init__({name: self._door(name) for name in sites})
        self.messages = 0
        self._plan: list[tuple[int, str, tuple[str, ...]]] = []
        self._struck: dict[str, str] = {}
        self._back = False

    def _door(self, name):
        return lambda data: self.sites[name].answer(data)

    def plan(self, message: int, fault: str, teachers: tuple[str, ...]) -> None:
        """At this message of a run (hello is 1, agree 2, round n is n + 2) break this."""
        self._plan.append((message, fault, teachers))

    def restart(self, name: str) -> None:
        """A new process of a teacher: the same rows, policy and log, and no memory."""
        old = self.sites[name]
        home = old.guard.policy.folder.parent
        guard = Guard(old.guard.policy, Audit(home / "audit.jsonl"))
        secret = own_secret(home / "secret")
        self.sites[name] = Site(old.name, old.holding, guard, old.coordinator, secret=secret)
        self._struck.pop(name, None)

    def new_run(self) -> None:
        """Every job has teachers' processes of its own, for those who are there."""
        self.messages = 0
        for name in self.sites:
            if self._struck.get(name) not in ("killed", "hanging"):
                self.restart(name)

    def comes_back(self, lost: TeacherLost, seconds: float) -> bool:
        """The fault's own words say whether the teacher comes back."""
        if self._back:
            self._struck.pop(lost.teacher, None)
        return self._back

    def ask(self, requests, seconds):
        self.messages += 1
        if self._plan and self._plan[0][0] <= self.messages:
            _, fault, teachers = self._plan.pop(0)
            if fault == "coordinator":
                raise Killed
            for name in teachers:
                self._struck[name] = fault
            self._back = bool(self._plan) and self._plan[0][1] == "back"
            if self._back:
                self._plan.pop(0)
        replies = {}
        for name, data in requests.items():
            answer = self._answer(name, data, seconds)
            if answer is not None:
                replies[name] = answer
        return replies

    def _answer(self, name, data, seconds):
        fault = self._struck.get(name)
        if fault in ("killed", "hanging", "cut"):  # a message to these is never heard
            return None
        if fault == "slow":
            assert seconds > 1.0
            del self._struck[name]
        if fault == "no log":
            self.sites[name].guard.audit = Audit("/dev/full")
        full = OSError(errno.ENOSPC, "No space left on device")
        with (
            patch("superteach.organisations.site.rows.os.fsync", side_effect=full)
            if fault == "full disk"
            else nullcontext()
        ):
            reply = self.sites[name].answer(data)
        if fault == "too slow":  # heard and answered, but nobody waits any more
            return None
        if fault == "nonsense":
            return reply[:7]
        if fault == "accident":
            return wire.pack_no("failed", "an unexpected MemoryError; its own log says more")
        if fault in ("nan", "infinity", "shape"):
            return _spoilt(fault, reply)
        return reply


def _spoilt(fault: str, reply: bytes) -> bytes:
    values = wire.read_reply(reply).values
    if values is None:
        return reply
    values = values.copy()
    if fault == "shape":
        values = np.append(values, 1.0)
    else:
        values[-1] = np.nan if fault == "nan" else np.inf
    return wire.pack("reply", {"status": "ok", "facts": {}, "reason": ""}, [values])
