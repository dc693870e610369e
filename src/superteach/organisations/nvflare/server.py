"""The coordinator's side of a lesson: NVFlare runs it in the server's own process for the job.

The method runs here, beside the server, so a round is one message to every teacher and back. A command line far
away would add its own way to every round, and would have to stay connected.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable

from superteach.errors import SuperteachError, TeacherLost, TeachingError
from superteach.lesson import Entry, to_json
from superteach.organisations.conductor import Order, conduct
from superteach.organisations.nvflare import FIELD, ORDER, STATUS, TOPIC
from superteach.processes.disk import write_text
from superteach.types import Json

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

FOLDER = "superteach"
"""Where a lesson's result lies within the job's own folder."""
UNFINISHED = "unfinished"
"""Where journals of unfinished lessons lie within the server's kit: they outlive its processes."""
HEARTBEAT, PATIENCE, LIVES = 2.0, 3.0, 5
"""A silent teacher is asked every two seconds whether it is there; after five times three seconds it is lost."""
AT_WORK = 5
"""Looks that find a teacher at work before its message is sent again; doubled each time."""

_log = logging.getLogger(__name__)


@dataclass
class _Owing:
    """What looks have shown of a teacher that owes an answer."""

    missed: int = 0
    seen: int = 0
    patience: int = AT_WORK

    def look(self, there: bool) -> bool:
        """Note what a look showed; return whether the message is to be sent again."""
        if not there:
            self.missed += 1
            return False
        self.seen += 1
        cut_off, swallowed = self.missed > 0, self.seen >= self.patience
        if swallowed:
            # Or it is still at work, and the same message again and again would only take its threads.
            self.patience *= 2
        if cut_off or swallowed:
            self.missed = self.seen = 0
        return cut_off or swallowed


class AuxLine:
    """NVFlare's auxiliary messages as a line: pushed, not polled."""

    def __init__(
        self,
        engine: Any,
        fl_ctx: FLContext,
        abort_signal: Signal,
        tell: Callable[[Sequence[str]], None] = lambda names: None,
    ) -> None:
        """`tell` is given the teachers that still owe an answer after a look, and none once all have answered."""
        self._tell = tell
        self._engine = engine
        self._fl_ctx = fl_ctx
        self._abort = abort_signal
        self._gone: set[str] = set()
        """Whoever was lost once: a dead site costs its time once, not in every round."""

    def ask(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """Send to all at once; whoever does not answer in time, or is not there any more, is left out.

        A teacher at work still answers when asked whether it is there, so a dead one is noticed long before its time
        is up. One that was cut off for a moment, or stays at work for long, is sent its message again, lest the message
        or the answer was lost: it works on the same bytes once.
        """
        self._check_abort()
        answers: queue.Queue[tuple[str, bytes | None]] = queue.Queue()

        def carry(name: str) -> None:
            answers.put((name, self._send(name, requests[name], max(PATIENCE, end - time.monotonic()))))

        def send(name: str) -> None:
            # No daemons: where such threads are left NVFlare leaves its process at once; else Python would
            # wait for NVFlare's own threads, which wait for a lost teacher until its time is up.
            threading.Thread(target=carry, args=(name,), daemon=False).start()

        end = time.monotonic() + seconds
        waiting = {name: _Owing() for name in requests if name not in self._gone}
        for name in waiting:
            send(name)
        found: dict[str, bytes] = {}
        while waiting:
            over = time.monotonic() >= end
            lost = [name for name, owing in waiting.items() if over or owing.missed >= LIVES]
            try:  # looks take their time: an answer that came meanwhile counts
                name, reply = answers.get(timeout=0.0 if lost else HEARTBEAT)
            except queue.Empty:
                self._check_abort()
                for name in lost:
                    del waiting[name]
                self._tell(list(waiting))
                for name, owing in () if lost else waiting.items():  # at work, or gone?
                    if owing.look(self._send(name, b"", PATIENCE) is not None):
                        send(name)
                continue
            if reply is not None and waiting.pop(name, None) is not None:
                found[name] = reply
            elif name in waiting:
                waiting[name].missed += 1  # the next look says whether anybody is there
        self._gone |= set(requests) - set(found)
        self._tell(())
        return found

    def _check_abort(self) -> None:
        if self._abort.triggered:
            raise TeachingError(
                "the lesson was aborted, by its coordinator or because too few teachers' processes are left"
            )

    def _send(self, name: str, data: bytes, seconds: float) -> bytes | None:
        envelope = Shareable()
        envelope[FIELD] = data
        try:
            replies = self._engine.send_aux_request([name], TOPIC, envelope, seconds, self._fl_ctx, optional=True)
        except Exception:  # nothing has come back, whatever the reason: the next look says more
            _log.exception("a message to teacher %s could not be sent", name)
            return None
        reply = (replies or {}).get(name)
        if reply is None or reply.get_return_code() != ReturnCode.OK:
            return None
        answer = reply.get(FIELD)
        return answer if isinstance(answer, bytes) else None

    def wait_for(self, names: Sequence[str], seconds: float, drop: bool = False) -> None:
        """Wait until every teacher's process answers; with `drop` whoever does not is not asked any more."""
        missing, end = list(names), time.monotonic() + seconds
        if drop:  # whoever did not take the lesson on will not come
            known = {client.name for client in self._engine.get_clients()}
            self._gone |= set(missing) - known
            missing = [name for name in missing if name in known]
        while missing:
            self._check_abort()
            there = [name for name in missing if self._send(name, b"", 2.0) is not None]
            missing = [name for name in missing if name not in there]
            self._tell(missing)
            if missing and time.monotonic() > end:
                if drop:
                    self._gone |= set(missing)
                    return
                raise TeacherLost(missing[0], f"its process for this lesson is not up after {seconds:g} seconds")
            time.sleep(0.1 if missing else 0.0)


class LessonController(Controller):  # type: ignore[misc]
    """Runs one lesson from its settings, and leaves the result in the job's folder."""

    def __init__(self) -> None:
        super().__init__()
        self._told: Json = {"stage": "start", "rounds": 0, "queries": {}, "promise": "", "waiting": []}
        self._asked: Counter[str] = Counter()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let an administrator ask how far the lesson is."""
        fl_ctx.get_engine().register_app_command(STATUS, self._status)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: nothing is held open."""

    def process_result_of_unknown_task(self, *args: object, **options: object) -> None:
        """Nobody sends task results here."""

    def _status(self, topic: str, data: object, fl_ctx: FLContext) -> Json:
        return self._told

    def _watch(self, entry: Entry) -> None:
        self._asked[entry.query if entry.teacher is None else f"{entry.query} of {entry.teacher} alone"] += 1
        self._told |= {"stage": entry.stage, "rounds": entry.number, "queries": dict(self._asked)}

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Teach; whatever goes wrong is written beside the result, in words."""
        job = fl_ctx.get_job_id()
        folder = Path(fl_ctx.get_workspace().get_run_dir(job)) / FOLDER
        folder.mkdir(exist_ok=True)
        unfinished = Path(fl_ctx.get_workspace().get_root_dir()) / UNFINISHED
        line = AuxLine(fl_ctx.get_engine(), fl_ctx, abort_signal, lambda names: self._told.update(waiting=list(names)))
        try:
            config = Path(fl_ctx.get_workspace().get_app_config_dir(job))
            order = Order(**json.loads((config / ORDER).read_text(encoding="utf-8")))
            self._told["promise"] = order.settings.promise
            line.wait_for(order.teachers, order.arrival, order.on_loss == "drop")
            conduct(line, job, order, folder, self._watch, unfinished)
        except Exception as fault:
            error = fault
            if not isinstance(fault, SuperteachError):
                self.log_exception(fl_ctx, "the lesson broke off", fire_event=False)
                error = TeachingError(f"the lesson broke off: {type(fault).__name__}: {fault}")
            told = {"kind": type(error).__name__, "error": str(error)}
            if isinstance(error, TeacherLost):
                told |= {name: getattr(error, name) for name in ("teacher", "reason", "when", "resumable")}
            write_text(folder / "error.json", to_json(told))
            self.system_panic(str(error), fl_ctx)
