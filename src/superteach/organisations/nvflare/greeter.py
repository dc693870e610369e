"""What a teacher sees on its terminal while it waits. Nothing heavy is imported here: this process idles for days."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.widgets.widget import Widget

from superteach.organisations.nvflare import JOINED
from superteach.organisations.nvflare.door import listen
from superteach.organisations.nvflare.terminal import say
from superteach.processes.disk import stamp
from superteach.types import Foreign

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext

ALIVE = ".alive"
"""A file in the kit, touched at each look that finds the server: health checks ask for its age."""
ROOM = 1 << 20
"""Bytes of free disk below which lessons will not get far: each brings some files of 20 kB and a log."""
LOOK = 2.0
"""Seconds between two looks at the connection and at the data file."""


class Greeter(Widget):  # type: ignore[misc]
    """Tells the person at the terminal what goes on: joined, the connection lost, a lesson began, a lesson ended."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Write one line for each thing worth knowing."""
        told = {
            EventType.AFTER_CLIENT_REGISTER: "joined; waiting for lessons (Ctrl-C leaves)",
            EventType.AFTER_JOB_LAUNCH: "lesson {job} has begun",
            EventType.JOB_COMPLETED: "lesson {job} is over",
            EventType.JOB_ABORTED: "lesson {job} was aborted",
        }.get(event_type)
        if told:
            name, meta = fl_ctx.get_identity_name(), fl_ctx.get_prop(FLContextKey.JOB_META) or {}
            job = fl_ctx.get_prop(FLContextKey.CURRENT_JOB_ID) or meta.get("job_id", "")
            say(f"{name}: {' '.join(told.format(job=job).split())}")
            if event_type == EventType.AFTER_CLIENT_REGISTER:
                kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
                cell = fl_ctx.get_engine().get_cell()
                listen(cell, name)
                threading.Thread(target=_watch, args=(cell, name, kit), daemon=True).start()


def _watch(cell: Foreign, name: str, kit: Path) -> None:
    """Say when the server is gone or back, and when the data file is not the one that was joined with."""
    connected, told = True, json.loads((kit / "local" / JOINED).read_text(encoding="utf-8"))
    same = room = True
    while True:
        time.sleep(LOOK)
        now = bool(cell.core_cell.is_backbone_ready())
        if now != connected:
            say(f"{name}: " + ("connected again" if now else "the server cannot be reached; trying again"))
        connected = now
        if now:
            with contextlib.suppress(OSError):
                (kit / ALIVE).touch()
        before, room = room, shutil.disk_usage(kit).free >= ROOM
        if before and not room:
            say(f"{name}: the disk with {kit} is full; without an audit log lessons are refused. Make room")
        if same and stamp(Path(told["data"])) != told["stamp"]:
            same = False
            say(f"{name}: {told['data']} has changed since you joined; lessons are refused until you join again")
