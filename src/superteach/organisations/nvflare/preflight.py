"""Before a teacher connects: is there a server, does it belong to this federation, do certificates and clocks fit?"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import proxy_bypass

from superteach.errors import SettingError, TeachingError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PATIENCE = 5.0
"""Seconds for a connection and for an answer on it: with a name that is looked up, at most 15 to the first sentence."""
AGAIN = 5.0
"""Seconds between two tries."""
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Settings of the environment by which gRPC goes through a proxy (and `no_proxy`, by which it does not)."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What a client of HTTP/2 says first; a server that accepts its certificate answers."""


def reach(kit: Path, name: str, server: str, say: Callable[[str], None]) -> None:
    """Wait until the server takes this kit's certificate, with a sentence for each try; end where waiting is no help."""
    startup = kit / "startup"
    check_dates(startup / "client.crt", f"{name}'s certificate")
    host, _, port = server.rpartition(":")
    if any(os.environ.get(name) for name in PROXIES) and not proxy_bypass(host):
        say(f"{name}: a proxy is set, by which NVFlare connects; whether the server answers is not looked at before")
        return
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    context.set_alpn_protocols(["h2"])
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as plain:
                reason = _greet(context, plain, host, server)
        except ssl.SSLCertVerificationError as error:
            raise TeachingError(_wrong(error, server)) from None
        except (OSError, ValueError) as error:
            reason = f"no server answers at {server} ({getattr(error, 'strerror', None) or error})"
        if reason is None:
            return
        say(f"{name}: {reason}; trying again in {AGAIN:g} seconds (Ctrl-C leaves)")
        time.sleep(AGAIN)


def _greet(context: ssl.SSLContext, plain: socket.socket, host: str, server: str) -> str | None:
    """Say why the server does not take this certificate; None where it does."""
    try:
        with context.wrap_socket(plain, server_hostname=host) as line:
            line.settimeout(PATIENCE)
            line.sendall(HELLO)
            if line.recv(9):
                return None
    except ssl.SSLCertVerificationError:
        raise
    except TimeoutError:
        return f"something listens at {server} and does not answer"
    except (ssl.SSLError, ConnectionError) as error:
        told = str(getattr(error, "reason", "") or error)
        if "WRONG_VERSION" in told or "RECORD_LAYER" in told or "EOF" in told:
            return f"what listens at {server} is no server of a federation ({told})"
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return (
        f"the server at {server} turns this kit's certificate away: it is of another federation, or has ended by the "
        f"server's clock (here it is {now}); ask the coordinator"
    )


def _wrong(error: ssl.SSLCertVerificationError, server: str) -> str:
    """Say what is wrong with the server's certificate, by OpenSSL's number of the fault."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    told = {
        9: f"begins later than now, which is {now} here: set the clock of this machine or the server's",
        10: f"has ended; here it is {now}: the coordinator renews it with  superteach federation renew, or set the clock",
        62: "is for another name: ask for a kit with the name under which you reach it (--host)",
    }.get(error.verify_code, "is of another authority: this kit belongs to another federation than this server")
    return f"the certificate of the server at {server} {told} ({error.verify_message})"


def read_certificate(path: Path) -> Certificate:
    """Read the first certificate of a file."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        return load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingError(f"no certificate can be read from {str(path)!r}: {error}") from None


def check_dates(path: Path, whose: str) -> datetime:
    """Refuse a certificate that does not hold now; return its end."""
    try:
        shown = read_certificate(path)
    except SettingError as error:
        raise SettingError(f"{whose}: {error}") from error
    begins, ends, now = shown.not_valid_before_utc, shown.not_valid_after_utc, datetime.now(UTC)
    if not begins <= now <= ends:
        mend = (
            "set the clock" if now < begins else "ask for a new one (superteach federation request), or set the clock"
        )
        raise SettingError(
            f"{whose} holds from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC, and here it is {now:%Y-%m-%d %H:%M}: "
            f"{mend}"
        )
    return ends
