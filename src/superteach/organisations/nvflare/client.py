"""The teacher's side of a lesson: a thin shell around `Site`, which NVFlare runs in the teacher's own process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.hashes import SHA256
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.lighter.tool_consts import NVFLARE_SUBMITTER_CRT_FILE
from nvflare.lighter.utils import load_crt_chain, verify_folder_signature_and_get_signers

from superteach.errors import QueryRefused, SuperteachError
from superteach.line import wire
from superteach.organisations.nvflare import AUDIT, FIELD, JOINED, LEDGER, SECRET, TOPIC
from superteach.organisations.site import Site
from superteach.organisations.site.rows import open_holding, own_secret
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import read_policy
from superteach.privacy.rosters import Identity, Rosters
from superteach.processes.disk import stamp

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal


class TeacherExecutor(Executor):  # type: ignore[misc]
    """Answers messages of one lesson. It takes no argument, so a job cannot point it anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self._site: Site | None = None
        self._open: Callable[[], Site]
        self._opening = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the door when the lesson's process starts; the rows are read with the first message."""
        if event_type != EventType.START_RUN:
            return
        workspace, job = fl_ctx.get_workspace(), fl_ctx.get_job_id()
        kit, name = Path(workspace.get_root_dir()), fl_ctx.get_identity_name()
        app = Path(workspace.get_app_dir(job))
        self._open = lambda: open_site(kit, name, *signer_of(app, kit / "startup" / "rootCA.pem"))
        fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._answer)

    def _answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        reply = make_reply(ReturnCode.OK)
        data = request.get(FIELD)
        reply[FIELD] = b"" if data == b"" else self._bytes(data, fl_ctx)  # empty: are you there?
        return reply

    def _bytes(self, data: bytes, fl_ctx: FLContext) -> bytes:
        try:
            with self._opening:  # a message sent again while the rows are read must not open a second door
                if self._site is None:
                    self._site = self._open()
            return self._site.answer(data)
        except QueryRefused as error:
            self.log_warning(fl_ctx, f"refused: {error}", fire_event=False)
            return wire.pack_no("refused", str(error))
        except Exception as error:  # the reason may quote a row: it stays here
            self.log_error(fl_ctx, f"this teacher cannot take part: {error}", fire_event=False)
            kind = type(error).__name__ if isinstance(error, SuperteachError) else "accident"
            return wire.pack_no("failed", f"it cannot open its rows or its policy ({kind}); its own log says why")

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Take no tasks: messages come to the door."""
        return make_reply(ReturnCode.TASK_UNKNOWN)


def open_site(kit: Path, name: str, coordinator: str, fingerprint: str) -> Site:
    """Open the site of a teacher from its kit, as `superteach join` has set it up."""
    told = json.loads((kit / "local" / JOINED).read_text(encoding="utf-8"))
    guard = Guard(read_policy(told["policy"]), Audit(kit / AUDIT))
    try:
        guard.check_coordinator(coordinator, fingerprint)
        if stamp(data := Path(told["data"])) != told["stamp"]:
            raise QueryRefused(
                f"its file {data.name} has changed since it joined; its owner joins again with the file as it is"
            )
    except QueryRefused as error:
        guard.record({"coordinator": coordinator, "kind": "lesson", "verdict": f"refused: {error}"})
        raise
    holding, policy = open_holding(name, told["data"], told["target"], told["features"]), guard.policy
    holding.check(policy)
    ledger = rosters = None
    if policy.declared is not None:
        key, shown, root = (
            (kit / "startup" / part).read_bytes() for part in ("client.key", "client.crt", "rootCA.pem")
        )
        rosters = Rosters(Identity(key, shown), policy.least_teachers, policy.teachers, root)
        ledger = Ledger(kit / LEDGER, policy.epsilon, policy.delta)
    return Site(
        name, holding, guard, coordinator, fingerprint, told["threads"], own_secret(kit / SECRET), ledger, rosters
    )


def signer_of(app: Path, root: Path) -> tuple[str, str]:
    """Check the signature of a lesson once more; return name and fingerprint of the certificate that signed it."""
    verified, signers = verify_folder_signature_and_get_signers(str(app), str(root))
    if not verified or len(signers) != 1:
        raise QueryRefused("the lesson is not signed by one coordinator of this federation")
    certificate = load_crt_chain(str(app / NVFLARE_SUBMITTER_CRT_FILE))[0]
    return str(signers[0][0]), certificate.fingerprint(SHA256()).hex()
