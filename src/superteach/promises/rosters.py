"""Who shares masks with whom: keys signed with a site's own certificate, and one roster for each attempt at a lesson.

The coordinator relays the keys and could put its own in their place, or invent teachers until only one is real. Signatures
stop the first, the policy's list of certificates stops the second. A root certificate alone does not: whoever runs the
federation holds certificates of it that are no teacher's.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from superteach.errors import QueryRefused, SettingError
from superteach.promises.masks import KEY, LEAST, Masker, check_installed, encoded, public_key
from superteach.types import Json

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True)
class Hello:
    """A teacher's key for one attempt at a lesson, and the certificate (DER) that vouches for it."""

    name: str
    lesson: str
    attempt: int
    key: bytes
    certificate: bytes
    signature: bytes = b""

    def as_dict(self) -> Json:
        """For JSON."""
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, told: Json) -> Hello:
        """Read it back, or raise ValueError, TypeError or KeyError."""
        parts = {name: bytes.fromhex(told[name]) for name in ("key", "certificate", "signature")}
        return cls(str(told["name"]), str(told["lesson"]), int(told["attempt"]), **parts)

    @property
    def signed(self) -> bytes:
        """What the signature is for."""
        return encoded("hello", self.lesson, self.attempt, self.name, self.key.hex())


class Identity:
    """A site's private key and its certificate, as its start-up kit holds them (PEM), of RSA or Ed25519."""

    def __init__(self, key: bytes, certificate: bytes) -> None:
        check_installed()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate

        try:
            own, shown = load_pem_private_key(key, None), load_pem_x509_certificate(certificate)
        except (ValueError, TypeError) as error:
            raise SettingError(f"key and certificate must be PEM without a password, and are not: {error}") from None
        if not isinstance(own, RSAPrivateKey | Ed25519PrivateKey):
            raise SettingError(f"keys sign with RSA or Ed25519, not {type(own).__name__}: ask for a new start-up kit")
        if own.public_key() != shown.public_key():
            raise SettingError("the certificate is not for this private key: take both from one start-up kit")
        self._key = own
        self.certificate = shown.public_bytes(Encoding.DER)
        self.name = _common_name(shown)
        self.fingerprint = _fingerprint(self.certificate)

    @classmethod
    def ephemeral(cls, name: str) -> Identity:
        """Make an identity that vouches for itself, for teachers of one process."""
        check_installed()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        try:
            subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        except ValueError:
            raise SettingError(f"{name!r} is no name for a certificate: take one of 1 to 64 characters") from None
        own, now = Ed25519PrivateKey.generate(), datetime.now(UTC)
        made = x509.CertificateBuilder(subject, subject, own.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=365))
        pem = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return cls(pem, made.sign(own, None).public_bytes(Encoding.PEM))

    def hello(self, lesson: str, attempt: int, key: bytes) -> Hello:
        """Sign a public X25519 key for one attempt at a lesson."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256

        told = Hello(self.name, lesson, attempt, key, self.certificate)
        own, data = self._key, told.signed
        signature = own.sign(data, PKCS1v15(), SHA256()) if isinstance(own, RSAPrivateKey) else own.sign(data)
        return replace(told, signature=signature)


def verify(hello: Hello, allowed: Collection[str] | None = None, root: bytes | None = None) -> None:
    """Refuse a hello that its certificate does not vouch for, or whose certificate is not one of these.

    `allowed` lists fingerprints, "sha256:" and 64 digits; `root` is the federation's certificate (PEM). With neither any
    certificate will do: that is for teachers of one process.
    """
    check_installed()
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate

    def refuse(why: str) -> QueryRefused:
        return QueryRefused(f"the key of teacher {hello.name!r} is not accepted: {why}")

    try:
        shown = load_der_x509_certificate(hello.certificate)
        key, common, mark = shown.public_key(), _common_name(shown), _fingerprint(hello.certificate)
        begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    except (ValueError, UnsupportedAlgorithm) as error:
        raise refuse(f"its certificate cannot be read ({error}); send that of its start-up kit") from None
    if common != hello.name:
        raise refuse(f"its certificate is for {common!r}; a teacher goes by the name on its certificate")
    if allowed is not None and mark not in allowed:
        raise refuse(f"the policy does not list its certificate ({mark}); add it if you know whose it is")
    if not begins <= datetime.now(UTC) <= ends:
        raise refuse(f"its certificate holds from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}, not today; renew it")
    try:
        if root is not None:
            shown.verify_directly_issued_by(load_pem_x509_certificate(root))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        raise refuse(f"its certificate ({mark}) was not issued by this federation; ask for a start-up kit") from None
    try:
        if isinstance(key, RSAPublicKey):
            key.verify(hello.signature, hello.signed, PKCS1v15(), SHA256())
        elif isinstance(key, Ed25519PublicKey):
            key.verify(hello.signature, hello.signed)
        else:
            raise refuse(f"its certificate holds a {type(key).__name__}; RSA and Ed25519 are known")
    except InvalidSignature:
        raise refuse(f"its signature is not that of its certificate ({mark}); someone may have changed it") from None


class Rosters:
    """A teacher's part in rosters: new keys for every attempt, one roster for each, and attempts that only go up.

    When a teacher is lost the round ends. Those who are left go on with that round under a new attempt, keys and roster;
    rounds before it stay with the old one, or the difference of their totals would show the lost teacher's numbers.
    """

    def __init__(
        self, identity: Identity, least: int = LEAST, allowed: Collection[str] | None = None, root: bytes | None = None
    ) -> None:
        self.identity, self.least, self.allowed, self.root = identity, least, allowed, root
        self._secrets: dict[str, tuple[bytes, Hello]] = {}
        self._maskers: dict[str, Masker] = {}

    def hello(self, lesson: str, attempt: int) -> Hello:
        """Make a key for an attempt and sign it; the key of an earlier attempt is forgotten."""
        known = self._secrets.get(lesson)
        if known is None or known[1].attempt < attempt:
            secret = secrets.token_bytes(KEY)
            known = self._secrets[lesson] = secret, self.identity.hello(lesson, attempt, public_key(secret))
        self._check_attempt(lesson, attempt)
        return known[1]

    def join(self, lesson: str, attempt: int, hellos: Sequence[Hello]) -> Masker:
        """Verify the hellos of all teachers, and mask on this roster from now on and on no other of this attempt."""
        self._check_attempt(lesson, attempt)
        for hello in hellos:
            if (hello.lesson, hello.attempt) != (lesson, attempt):
                seen = f"attempt {hello.attempt} at lesson {hello.lesson!r}"
                raise QueryRefused(f"the key of teacher {hello.name!r} is for {seen}: ask it for one for this attempt")
            verify(hello, self.allowed, self.root)
        past = self._maskers.get(lesson)
        first = past.last if past else 0
        roster = [(hello.name, hello.key) for hello in hellos]
        made = Masker(self._secrets[lesson][0], roster, self.identity.name, lesson, attempt, self.least, first)
        if past and past.attempt == attempt:
            if past.digest != made.digest:
                raise QueryRefused(f"attempt {attempt} at lesson {lesson!r} has another roster: begin a new attempt")
            return past
        self._maskers[lesson] = made
        return made

    def _check_attempt(self, lesson: str, attempt: int) -> None:
        """Refuse an attempt other than the one this teacher made its last key for."""
        last = self._secrets[lesson][1].attempt if lesson in self._secrets else None
        if last != attempt:
            raise QueryRefused(f"this is attempt {last} of lesson {lesson!r}, not {attempt}: attempts only go up")


def _common_name(certificate: Certificate) -> str:
    """The one common name on a certificate; none where there is not one."""
    from cryptography.x509 import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _fingerprint(certificate: bytes) -> str:
    """A certificate's fingerprint as policies write it."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"
