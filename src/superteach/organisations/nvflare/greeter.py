"""What a teacher sees on its terminal while it waits. Nothing heavy is imported here: this process idles for days."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.widgets.widget import Widget

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext


class Greeter(Widget):  # type: ignore[misc]
    """Tells the person at the terminal what goes on: joined, a lesson began, a lesson ended."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Write one line for each thing worth knowing."""
        told = {
            EventType.AFTER_CLIENT_REGISTER: "joined; waiting for lessons (Ctrl-C leaves)",
            EventType.CLIENT_DISCONNECTED: "the connection is lost; trying again",
            EventType.CLIENT_RECONNECTED: "connected again",
            EventType.AFTER_JOB_LAUNCH: "lesson {job} has begun",
            EventType.JOB_COMPLETED: "lesson {job} is over",
            EventType.JOB_ABORTED: "lesson {job} was aborted",
        }.get(event_type)
        if told:
            meta = fl_ctx.get_prop(FLContextKey.JOB_META) or {}
            job = fl_ctx.get_prop(FLContextKey.CURRENT_JOB_ID) or meta.get("job_id", "")
            sys.stdout.write(f"{fl_ctx.get_identity_name()}: {' '.join(told.format(job=job).split())}\n")
            sys.stdout.flush()
