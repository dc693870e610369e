"""Who gets in: the server's check of whoever registers, and the teacher's ear for what the server has to say.

NVFlare 2.9.0 lets the last one in who shows a certificate of the federation. Here a certificate must be the one that the
coordinator lists, the versions must fit, and a second process with a copy of a kit is turned away while the first is there.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.fuel.f3.cellnet.defs import IdentityChallengeKey, MessageHeaderKey, ReturnCode
from nvflare.private.defs import CellMessageHeaderKeys, ClientType, new_cell_message
from nvflare.private.fed.authenticator import Authenticator

from superteach.organisations.nvflare import ACCEPTED, HEARTBEAT, mark_of
from superteach.organisations.nvflare.terminal import say
from superteach.versions import VERSION, misfit

if TYPE_CHECKING:
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal
    from nvflare.fuel.f3.cellnet.cell import Cell
    from nvflare.fuel.f3.message import Message
    from nvflare.private.fed.server.client_manager import ClientManager

CHANNEL, NOTICE = "superteach", "superteach.notice"
FRESH = 1.5 * HEARTBEAT
"""Seconds since a teacher's last sign of life within which it counts as there."""
ACKNOWLEDGED = 30.0
"""Seconds for which a teacher counts as there that has answered a notice: a newcomer's connection ends its own for a moment,
and it may miss its next signs of life over that."""
TELL = 60.0
"""Seconds for which a teacher is looked for that is to be told something: it may be connecting again."""
_log = logging.getLogger(__name__)
_answered: dict[str, float] = {}
"""When a teacher has answered a notice, by its address."""


def keep_door(kit: Path) -> None:
    """Let the server of this process look at whoever registers, and at each sign of life, before NVFlare does."""
    from nvflare.private.fed.server.client_manager import ClientManager

    inner, beat = ClientManager.authenticated_client, ClientManager.heartbeat
    shown: dict[str, str] = {}
    """Certificates of those who have joined, by their tokens."""

    def authenticated(manager: ClientManager, request: Message, fl_ctx: FLContext, kind: str) -> object:
        name = str(request.get_header(CellMessageHeaderKeys.CLIENT_NAME))
        if kind != ClientType.REGULAR:  # the coordinator, whom hellos ask for its version
            return inner(manager, request, fl_ctx, kind)
        peer, mark = fl_ctx.get_peer_context(), _mark(request)
        refusal = (
            misfit("the server", VERSION, f"teacher {name}", str(peer.get_prop(CHANNEL) if peer else None))
            or _revoked(kit, name, mark)
            or _taken(manager, request, name, fl_ctx)
        )
        if refusal is None:
            if client := inner(manager, request, fl_ctx, kind):
                shown[client.token] = mark
            return client
        _log.warning("%s is not let in: %s", name, refusal)
        say(f"{name} is not let in: {refusal}")
        fl_ctx.set_prop(FLContextKey.UNAUTHENTICATED, refusal, sticky=False)
        return None

    def heartbeat(manager: ClientManager, token: str, name: str, fqcn: str, fl_ctx: FLContext) -> object:
        refusal = _revoked(kit, name, shown[token]) if token in shown else None
        if refusal is None:
            return beat(manager, token, name, fqcn, fl_ctx)
        fl_ctx.set_prop(FLContextKey.UNAUTHENTICATED, refusal, sticky=False)
        if token in manager.clients:
            manager.remove_client(token)
            say(f"{name} is sent away: {refusal}")
            _tell(fl_ctx, fqcn, f"you are sent away: {refusal}")
        return False

    ClientManager.authenticated_client, ClientManager.heartbeat = authenticated, heartbeat


def _mark(request: Message) -> str:
    """Return the fingerprint of the certificate with which somebody registers; nothing where there is none."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return mark_of(load_pem_x509_certificate(request.payload[IdentityChallengeKey.CERT]))
    except (KeyError, TypeError, ValueError):
        return ""


def _revoked(kit: Path, name: str, mark: str) -> str | None:
    """Say why a certificate is not the one by which a teacher is let in; the list may have changed since it came."""
    place = kit / "local" / ACCEPTED
    accepted = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {name: mark}
    if name not in accepted:
        return f"the certificate of {name} was revoked; ask the coordinator"
    if accepted[name] != mark:
        return f"another certificate of {name} has taken this one's place; use the kit with the newer one"
    return None


def _taken(manager: ClientManager, request: Message, name: str, fl_ctx: FLContext) -> str | None:
    """Tell whether the same teacher is there already: then the newcomer holds a copy of its kit, and its owner is told."""
    there = [client for client in list(manager.clients.values()) if client.name == name]
    silent = min((time.time() - client.last_connect_time for client in there), default=FRESH)
    if silent >= FRESH and not any(time.time() - _answered.get(one.get_fqcn(), 0.0) < ACKNOWLEDGED for one in there):
        return None
    where = request.get_header(CellMessageHeaderKeys.CLIENT_IP)
    text = f"a second process with a copy of this kit, at {where}, was refused. Not yours? Ask for a new certificate"
    _tell(fl_ctx, there[0].get_fqcn(), text)
    return (
        f"{name} has joined already, from another process (heard {silent:.0f} s ago). End that one first; if it is not "
        "yours, somebody has a copy of your kit: ask the coordinator for a new certificate"
    )


def _tell(fl_ctx: FLContext, fqcn: str, text: str) -> None:
    """Send a notice until it is answered, on a thread of its own."""
    cell, end = fl_ctx.get_engine().get_cell(), time.monotonic() + TELL

    def carry() -> None:
        while time.monotonic() < end:
            time.sleep(1.0)
            told = new_cell_message({}, {"text": text})
            reply = cell.send_request(CHANNEL, NOTICE, fqcn, told, timeout=2.0, optional=True)
            if reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK:
                _answered[fqcn] = time.time()
                return

    threading.Thread(target=carry, daemon=True).start()


def listen(cell: Cell, name: str) -> None:
    """Say on a teacher's terminal what the server has to tell it."""

    def heard(request: Message) -> Message:
        say(f"{name}: {str(request.payload.get('text'))[:500]}")
        return new_cell_message({MessageHeaderKey.RETURN_CODE: ReturnCode.OK}, {})

    cell.register_request_cb(CHANNEL, NOTICE, heard)


class Refused(SystemExit):
    """The server does not let this teacher in."""


def knock() -> None:
    """Let the teacher of this process show its version, and end with the server's reason where it is not let in."""
    inner = Authenticator.authenticate

    def authenticate(asking: Authenticator, shared: FLContext, abort: Signal) -> object:
        shared.set_prop(CHANNEL, VERSION, private=False, sticky=False)
        send, heard = asking.cell.send_request, {}

        def send_request(*args: object, **options: object) -> object:
            reply = send(*args, **options)
            heard["why"] = reply.get_header(MessageHeaderKey.ERROR) or ""
            return reply

        asking.cell.send_request = send_request
        try:
            return inner(asking, shared, abort)
        except FLCommunicationError:
            raise Refused(heard.get("why") or "the server gives no reason; its log may") from None
        finally:
            asking.cell.send_request = send

    Authenticator.authenticate = authenticate
