"""NVFlare as a carrier: a job that copies documents between a box beside the server and a box beside each client.

A controller runs beside the coordinator's box, an executor beside each site's; nothing else of superteach runs in the job.
Documents are signed, so NVFlare is trusted with nothing but delivery. Whoever shares an NVFlare server shares its trust all
the same: it has a command channel of its own to every client.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from superteach.exceptions import MissingExtra
from superteach.federated.box import FILE, MEMBER, LocalBox

try:
    from nvflare.apis.event_type import EventType
    from nvflare.apis.executor import Executor
    from nvflare.apis.fl_constant import FLContextKey, ReturnCode
    from nvflare.apis.impl.controller import Controller
    from nvflare.apis.shareable import Shareable, make_reply
except ImportError:
    raise MissingExtra("nvflare", "nvflare", "carrying documents over NVFlare") from None

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

TOPIC = "superteach.documents"
SECONDS = 10.0
"""For one exchange with all clients; who is later gets its documents with the next one."""
BUSY, IDLE = 0.02, 0.5
"""Seconds between exchanges after news, and without."""
MOST = 1 << 27
"""Bytes of one exchange; the rest goes with the next."""
LESSON = re.compile(r"lessons/[0-9a-f]{64}")


class Shelf:
    """A box as a carrier sees it: names, and what is behind them."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.box = LocalBox(place)

    def names(self) -> list[str]:
        """List all documents."""
        names = [f"members/{name}" for name in self.box.list("members")]
        for lesson in self.box.list("lessons"):
            names += [f"lessons/{lesson}/{name}" for name in self.box.list(f"lessons/{lesson}")]
        return [name for name in names if is_document(name)]

    def missing(self, names: object) -> dict[str, bytes]:
        """Return documents that the other side lacks, which says that it has `names`."""
        there = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
        files, size = {}, 0
        for name in self.names():
            if name not in there and size < MOST:
                files[name] = self.box.get(name, MOST)
                size += len(files[name])
        return files

    def store(self, files: object) -> int:
        """Write documents that came; a name that is none is left out. Return how many there were."""
        stored = 0
        there = set(self.names())
        for name, data in files.items() if isinstance(files, dict) else ():
            if isinstance(name, str) and isinstance(data, bytes) and is_document(name) and name not in there:
                self.box.put(name, data)
                stored += 1
        return stored


def is_document(name: str) -> bool:
    """Tell names of documents from all others: no other file is ever read or written."""
    folder, _, file = name.rpartition("/")
    return bool(MEMBER.fullmatch(file) if folder == "members" else LESSON.fullmatch(folder) and FILE.fullmatch(file))


class DocumentController(Controller):  # type: ignore[misc]
    """Copies documents between the coordinator's box and all clients, until the job is aborted."""

    def __init__(self, box: str, seconds: float = float("inf")) -> None:
        """`seconds` ends the job by itself."""
        super().__init__()
        self.box, self.seconds = box, seconds

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is to be prepared."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is held open."""

    def process_result_of_unknown_task(self, *args: object, **options: object) -> None:
        """Nobody sends task results here."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Exchange documents with all clients, over and over."""
        shelf, engine = Shelf(Path(self.box)), fl_ctx.get_engine()
        theirs: dict[str, object] = {}
        ends = time.monotonic() + self.seconds
        while not abort_signal.triggered and time.monotonic() < ends:
            news = 0
            for name in [client.name for client in engine.get_clients()]:
                request = Shareable()
                request["names"], request["files"] = shelf.names(), shelf.missing(theirs.get(name, shelf.names()))
                replies: Any = engine.send_aux_request([name], TOPIC, request, SECONDS, fl_ctx, optional=True)
                reply = (replies or {}).get(name)
                if reply is not None and reply.get_return_code() == ReturnCode.OK:
                    theirs[name] = reply.get("names")
                    news += len(request["files"]) + shelf.store(reply.get("files"))
            time.sleep(BUSY if news else IDLE)


class DocumentExecutor(Executor):  # type: ignore[misc]
    """Copies documents into and out of the box of one site, which lies in the client's own workspace.

    Its place is the owner's to choose (SUPERTEACH_BOX, else superteach-box/NAME in the workspace); no job can name another.
    """

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Take exchanges from the start of the job on."""
        if event_type == EventType.START_RUN:
            root = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
            place = os.environ.get("SUPERTEACH_BOX") or root / "superteach-box" / fl_ctx.get_identity_name()
            self._shelf = Shelf(Path(place))
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._exchange)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Nobody sends tasks here."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _exchange(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        self._shelf.store(request.get("files"))
        reply = make_reply(ReturnCode.OK)
        reply["names"], reply["files"] = self._shelf.names(), self._shelf.missing(request.get("names"))
        return reply


def make_job(box: str, seconds: float = float("inf")) -> Any:
    """Make the job; every machine has superteach installed, so that no code travels."""
    from nvflare.job_config.api import FedJob

    job = FedJob(name="superteach", min_clients=1)
    job.set_app_packages(["superteach"])
    job.to_server(DocumentController(box, seconds))
    job.to_clients(DocumentExecutor())
    return job
