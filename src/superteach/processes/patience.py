"""Waiting for a lost teacher, then going on from the journal: over any line, and for any way to run a lesson."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from superteach.errors import BadReply, TeacherLost

MOST = 10
"""Attempts at one lesson: a teacher that comes and goes must not keep it alive for ever."""
LEAST, WAIT = 2, 60.0
"""Defaults: the fewest teachers that a lesson goes on with, and the seconds to wait for a lost one."""
Result = TypeVar("Result")


def persevere(
    attempt: Callable[[bool], Result],
    comes_back: Callable[[TeacherLost, float], bool],
    seconds: float,
    resume: bool = False,
) -> Result:
    """Run `attempt(resume)` until it gives a result; after a loss, once the teacher `comes_back` within `seconds`.

    A teacher that gave a bad reply was there all the time, so waiting for it is no help.
    """
    for _ in range(MOST):
        try:
            return attempt(resume)
        except BadReply:
            raise
        except TeacherLost as lost:
            last = lost
            if not comes_back(lost, seconds):
                reason = f"it has not come back within {seconds:g} seconds; before, {lost.reason}"
                raise TeacherLost(lost.teacher, reason) from None
            resume = resume or lost.resumable
    raise last
