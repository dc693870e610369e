"""Teaching across organisations on NVFlare: start-up kits, the teacher's and the coordinator's processes.

The only room that imports NVFlare. A lesson is an NVFlare job that holds settings and no code: it names
`superteach.organisations.nvflare.client.TeacherExecutor`, which every teacher has installed itself, and each teacher's kit
allows that one class and forbids shipped code.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from superteach.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CLIENT = "superteach.organisations.nvflare.client.TeacherExecutor"
SERVER = "superteach.organisations.nvflare.server.LessonController"
GREETER = "superteach.organisations.nvflare.greeter.Greeter"
TOPIC = "superteach.message"
STATUS = "superteach.status"
FIELD = "message"
"""Key of the bytes within NVFlare's own envelope."""
ORDER = "order.json"
"""A lesson's settings within its job; NVFlare would read braces in its own configuration as templates."""
JOINED = "superteach.json"
"""What `superteach join` was told, in the kit's local folder: the coordinator has no say in it."""
AUDIT = "superteach-audit.jsonl"
LEDGER = "superteach-ledger"
"""Folder of what rows have spent, in the teacher's kit."""
ACCEPTED = "superteach-teachers.json"
"""In the server's local folder: the one certificate by which each teacher is let in."""
HEARTBEAT = 4.0
"""Seconds between two signs of life of a teacher (NVFlare's own: 10); each costs the server about a millisecond."""
SECRET = "superteach-secret"
"""With which a teacher seals its rows, in its kit; it never leaves it."""


def require() -> None:
    """Say which command installs NVFlare where it is missing."""
    if find_spec("nvflare") is None:
        raise MissingExtra("NVFlare", "nvflare", "teaching across organisations")


def mark_of(certificate: Certificate) -> str:
    """Return the fingerprint of a certificate, as lists and policies hold it."""
    from cryptography.hazmat.primitives.hashes import SHA256

    return f"sha256:{certificate.fingerprint(SHA256()).hex()}"
