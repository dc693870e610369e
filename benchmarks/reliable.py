"""NVFlare's ReliableMessage beside the auxiliary messages of superteach's line: python -m benchmarks.reliable.

NVFlare's own simulator starts a server and a client; the server asks the client 200 times each way. Needs
superteach[nvflare].
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.utils import reliable_message
from nvflare.apis.utils.reliable_message import ReliableMessage

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

TIMES, WARM, BYTES, TOPIC = 200, 5, 4_000, "benchmark"
"""Questions each way, those before them that do not count, and bytes of a question and an answer: a round of 20 columns
with curvatures."""


class Asker(Controller):  # type: ignore[misc]
    """Ask a client by each of the two ways, in turns."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self.out = out

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let answers come back."""
        ReliableMessage.register_request_handler("other", lambda *given: make_reply(ReturnCode.OK), fl_ctx)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is held open."""

    def process_result_of_unknown_task(self, *args: object, **options: object) -> None:
        """Nobody sends task results here."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Measure seconds of every question."""
        engine = fl_ctx.get_engine()
        name = next(iter(engine.get_clients())).name
        question = Shareable()
        question["numbers"] = b"x" * BYTES

        def plainly() -> Any:
            replies = engine.send_aux_request([name], TOPIC, question, 10.0, fl_ctx, optional=True)
            return (replies or {}).get(name)

        def reliably() -> Any:
            return ReliableMessage.send_request(name, TOPIC + "-reliable", question, 10.0, 30.0, abort_signal, fl_ctx)

        seconds: dict[str, list[float]] = {"auxiliary": [], "reliable": []}
        for turn in range(TIMES + WARM):
            for way, ask in (("auxiliary", plainly), ("reliable", reliably)):
                begun = time.perf_counter()
                reply = ask()
                came = reply is not None and reply.get_return_code() == ReturnCode.OK
                if turn >= WARM:
                    seconds[way].append(time.perf_counter() - begun if came else float("nan"))
        Path(self.out).write_text(json.dumps(seconds), encoding="utf-8")


class Answerer(Executor):  # type: ignore[misc]
    """Answer with as many bytes."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Take questions by both ways."""
        if event_type == EventType.START_RUN:
            # The simulator's server goes by another name than the one it is found by.
            reliable_message._RequestReceiver.source = property(lambda own: "server", lambda own, name: None)
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._answer)
            ReliableMessage.register_request_handler(TOPIC + "-reliable", self._answer, fl_ctx)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Nobody sends tasks here."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        reply = make_reply(ReturnCode.OK)
        reply["numbers"] = b"y" * len(request["numbers"])
        return reply


def main() -> None:
    """Run the simulator and print milliseconds of a question and its answer."""
    from nvflare.job_config.api import FedJob

    sys.modules["benchmarks.reliable"] = sys.modules["__main__"]
    Asker.__module__ = Answerer.__module__ = "benchmarks.reliable"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds.json"
        job = FedJob(name="reliable", min_clients=1)
        job.to_server(Asker(str(out)))
        job.to(Answerer(), "site-1")
        job.simulator_run(str(Path(folder) / "simulated"), log_config="error")
        for way, seconds in json.loads(out.read_text(encoding="utf-8")).items():
            failed = sum(s != s for s in seconds)
            good = [1000.0 * s for s in seconds if s == s]
            print(f"{way:9s} median {statistics.median(good):6.2f} ms, slowest {max(good):7.2f} ms;", end=" ")
            print(f"{failed} of {len(seconds)} failed")


if __name__ == "__main__":
    main()
