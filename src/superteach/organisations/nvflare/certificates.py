"""Certificates after the founding: teachers who come later, keys made on site, renewal and revocation.

The server lets each teacher in by one certificate alone (`ACCEPTED`), so a new one ends the old one, and taking a
teacher off the list ends it at its next sign of life.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509 import (
    Certificate,
    CertificateBuilder,
    CertificateSigningRequestBuilder,
    SubjectKeyIdentifier,
    load_pem_x509_certificate,
    load_pem_x509_certificates,
    load_pem_x509_csr,
    random_serial_number,
)

from superteach.errors import SettingError
from superteach.organisations.nvflare import ACCEPTED, mark_of
from superteach.organisations.nvflare.kits import (
    FEDERATION,
    Project,
    check_project,
    close_teacher,
    make_private,
    provision,
    read_project,
    write_json,
)  # fmt: skip
from superteach.organisations.nvflare.preflight import read_certificate
from superteach.privacy.rosters import Identity, common_name
from superteach.processes.disk import write_bytes
from superteach.types import Foreign, Json

NEW_KEY = "client.key.new"
"""A key whose certificate is asked for, beside the one in use."""


def add(folder: Path, teacher: str) -> str:
    """Make a kit for one more teacher; return its certificate's fingerprint."""
    project = read_project(folder)
    if teacher in project.teachers:
        raise SettingError(f"there is a teacher {teacher!r} in this federation already")
    grown = check_project(replace(project, teachers=[*project.teachers, teacher]))
    root = load_pem_x509_certificate(_authority(folder, project)["root_cert"].encode())
    days = (root.not_valid_after_utc - root.not_valid_before_utc).days  # NVFlare wants to hear them again
    kit = provision(grown, folder / "certificate-authority", days) / teacher
    mark = mark_of(read_certificate(kit / "startup" / "client.crt"))
    close_teacher(kit, project.coordinator, [*_accepted(folder).values(), mark])
    shutil.move(kit, folder / "teachers" / teacher)
    shutil.rmtree(kit.parent)  # kits of the others once more
    make_private(folder)
    write_json(folder / FEDERATION, asdict(grown))
    _accept(folder, teacher, mark)
    return mark


def request(kit: Path) -> Path:
    """Make a new key in a teacher's kit, which never leaves it, and a request to sign it."""
    old = read_certificate(kit / "startup" / "client.crt")
    key = generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    write_bytes(kit / "startup" / NEW_KEY, pem, private=True)
    asked = CertificateSigningRequestBuilder(old.subject).sign(key, SHA256())
    place = kit / f"{common_name(old)}.csr"
    place.write_bytes(asked.public_bytes(Encoding.PEM))
    return place


def sign(folder: Path, asked: Path, days: int) -> tuple[Path, str]:
    """Sign a teacher's request; from now on the server takes this certificate of it alone. File and fingerprint."""
    project = read_project(folder)
    try:
        wanted = load_pem_x509_csr(asked.read_bytes())
        valid = wanted.is_signature_valid
    except (OSError, ValueError) as error:
        raise SettingError(f"{str(asked)!r} is no request for a certificate: {error}") from None
    name = common_name(wanted)
    if not valid or name not in project.teachers:
        raise SettingError(f"{str(asked)!r} is for {name!r}, who is no teacher here, or is not signed with its own key")
    stored = _authority(folder, project)
    old = load_pem_x509_certificate(stored[name]["cert"].encode())
    made = _reissued(old, wanted.public_key(), stored, days)
    place = asked.with_suffix(".crt")
    place.write_bytes(made.public_bytes(Encoding.PEM) + stored["root_cert"].encode())
    mark = mark_of(made)
    _accept(folder, name, mark)
    return place, mark


def install(kit: Path, signed: Path) -> str:
    """Put a signed certificate and its key in place of those of a kit; return its fingerprint."""
    startup = kit / "startup"
    try:
        made, root = load_pem_x509_certificates(signed.read_bytes())
        key = (startup / NEW_KEY).read_bytes()
        if root.public_key() != read_certificate(startup / "rootCA.pem").public_key():
            raise SettingError(f"{str(signed)!r} is signed by another authority than this kit's")
        made.verify_directly_issued_by(root)
        Identity(key, made.public_bytes(Encoding.PEM))  # the key is that of the certificate
    except (OSError, ValueError, InvalidSignature) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError(f"{str(signed)!r} does not fit the request that this kit made: {error}") from None
    pem = made.public_bytes(Encoding.PEM)
    for name, content in (("client.key", key), ("client.crt", pem), ("rootCA.pem", root.public_bytes(Encoding.PEM))):
        write_bytes(startup / name, content, private=True)
    os.unlink(startup / NEW_KEY)
    return mark_of(made)


def revoke(folder: Path, teacher: str) -> None:
    """Take a teacher off the server's list: it is not let in any more, and one that has joined is sent away."""
    project, accepted = read_project(folder), _accepted(folder)
    if teacher not in project.teachers:
        raise SettingError(f"there is no teacher {teacher!r}; there are {', '.join(project.teachers)}")
    accepted.pop(teacher, None)
    write_json(folder / "server" / "local" / ACCEPTED, accepted)


def renew(folder: Path, days: int) -> datetime:
    """Sign the certificates of authority, server and coordinator anew, with their keys as they are; until when they hold."""
    project = read_project(folder)
    stored = _authority(folder, project)
    root = load_pem_x509_certificate(stored["root_cert"].encode())
    root = _reissued(root, root.public_key(), stored, days)
    stored["root_cert"] = root.public_bytes(Encoding.PEM).decode()
    for path in (folder / "server" / "startup" / "server.crt", folder / "coordinator" / "startup" / "client.crt"):
        old = read_certificate(path)
        made = _reissued(old, old.public_key(), stored, days)
        write_bytes(path, made.public_bytes(Encoding.PEM), private=True)
        write_bytes(path.parent / "rootCA.pem", stored["root_cert"].encode(), private=True)
    write_bytes(_state(folder, project), json.dumps(stored).encode(), private=True)
    return root.not_valid_after_utc


def _reissued(old: Certificate, key: Foreign, stored: Json, days: int) -> Certificate:
    """Give a key the same subject and extensions from now on, signed by the authority."""
    root = load_pem_x509_certificate(stored["root_cert"].encode())
    now, serial = datetime.now(UTC), random_serial_number()
    begins = now - timedelta(minutes=5)  # clocks differ
    ends = begins + timedelta(days=days)
    if old.subject != root.subject:
        ends = min(ends, root.not_valid_after_utc)
        if ends <= now:
            raise SettingError("the authority's own certificate has ended: run  superteach federation renew  first")
    made = CertificateBuilder(root.subject, old.subject, key, serial, begins, ends)
    for extension in old.extensions:
        value = extension.value
        if isinstance(value, SubjectKeyIdentifier):
            value = SubjectKeyIdentifier.from_public_key(key)
        made = made.add_extension(value, extension.critical)
    signing: Foreign = load_pem_private_key(stored["root_pri_key"].encode(), None)
    return made.sign(signing, SHA256())


def _state(folder: Path, project: Project) -> Path:
    return folder / "certificate-authority" / project.name / "state" / "cert.json"


def _authority(folder: Path, project: Project) -> Json:
    """Read keys and certificates of the authority, which may be locked away."""
    try:
        stored: Json = json.loads(_state(folder, project).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(
            f"{str(folder / 'certificate-authority')!r} is needed for this and cannot be read ({error}): put it back for as "
            "long as it takes"
        ) from None
    return stored


def _accepted(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "server" / "local" / ACCEPTED).read_text(encoding="utf-8"))
    return found


def _accept(folder: Path, teacher: str, mark: str) -> None:
    write_json(folder / "server" / "local" / ACCEPTED, {**_accepted(folder), teacher: mark})
