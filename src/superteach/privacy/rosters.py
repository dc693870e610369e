"""Who shares masks with whom: keys signed with a site's own certificate, and one roster for each lesson.

The coordinator relays the keys and could put its own in their place, or invent teachers until only one is real. Signatures
stop the first, the policy's list of certificates stops the second. A root certificate alone does not: whoever runs the
federation holds certificates of it that are no teacher's.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from superteach.errors import QueryRefused, SettingError
from superteach.privacy.masks import ATTEMPT, KEY, Masker, encoded, public_key
from superteach.types import Json


@dataclass(frozen=True)
class Hello:
    """A teacher's key for one lesson, and the certificate (DER) that vouches for it."""

    name: str
    lesson: str
    key: bytes
    certificate: bytes
    signature: bytes = b""

    def as_dict(self) -> Json:
        """Write it for JSON."""
        told = {name: value.hex() if isinstance(value, bytes) else value for name, value in vars(self).items()}
        return {**told, "attempt": ATTEMPT}

    @classmethod
    def from_dict(cls, told: Json) -> Hello:
        """Read it back, or raise ValueError, TypeError or KeyError."""
        parts = {name: bytes.fromhex(told[name]) for name in ("key", "certificate", "signature")}
        return cls(str(told["name"]), str(told["lesson"]), **parts)

    @property
    def signed(self) -> bytes:
        """What the signature is for."""
        return encoded("hello", self.lesson, ATTEMPT, self.name, self.key.hex())


class Identity:
    """A site's private key and its certificate, as its start-up kit holds them: PEM, RSA."""

    def __init__(self, key: bytes, certificate: bytes) -> None:
        try:
            own, shown = load_pem_private_key(key, None), x509.load_pem_x509_certificate(certificate)
        except (ValueError, TypeError) as error:
            raise SettingError(f"key and certificate must be PEM without a password, and are not: {error}") from None
        if not isinstance(own, RSAPrivateKey):
            raise SettingError(f"keys sign with RSA, not {type(own).__name__}: ask for a new start-up kit")
        if own.public_key() != shown.public_key():
            raise SettingError("the certificate is not for this private key: take both from one start-up kit")
        self._key = own
        self.certificate = shown.public_bytes(Encoding.DER)
        self.name = common_name(shown)
        self.fingerprint = _fingerprint(self.certificate)

    def hello(self, lesson: str, key: bytes) -> Hello:
        """Sign a public X25519 key for one lesson."""
        told = Hello(self.name, lesson, key, self.certificate)
        return replace(told, signature=self._key.sign(told.signed, PKCS1v15(), SHA256()))


def verify(hello: Hello, allowed: Collection[str], root: bytes | None = None) -> None:
    """Refuse a hello that its certificate does not vouch for, or with a certificate that is not allowed.

    `allowed` lists fingerprints, "sha256:" and 64 digits; `root` is the federation's certificate (PEM).
    """

    def refuse(why: str) -> QueryRefused:
        return QueryRefused(f"the key of teacher {hello.name!r} is not accepted: {why}")

    try:
        shown = x509.load_der_x509_certificate(hello.certificate)
        key, common, mark = shown.public_key(), common_name(shown), _fingerprint(hello.certificate)
        begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    except (ValueError, UnsupportedAlgorithm) as error:
        raise refuse(f"its certificate cannot be read ({error}); send that of its start-up kit") from None
    if common != hello.name:
        raise refuse(f"its certificate is for {common!r}; a teacher goes by the name on its certificate")
    if mark not in allowed:
        raise refuse(f"the policy does not list its certificate ({mark}); add it if you know whose it is")
    if not begins <= datetime.now(UTC) <= ends:
        raise refuse(f"its certificate holds from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}, not today; renew it")
    try:
        if root is not None:
            shown.verify_directly_issued_by(x509.load_pem_x509_certificate(root))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        raise refuse(f"its certificate ({mark}) was not issued by this federation; ask for a start-up kit") from None
    try:
        if not isinstance(key, RSAPublicKey):
            raise refuse(f"its certificate holds a {type(key).__name__}; only RSA is known")
        key.verify(hello.signature, hello.signed, PKCS1v15(), SHA256())
    except InvalidSignature:
        raise refuse(f"its signature is not that of its certificate ({mark}); someone may have changed it") from None


class Rosters:
    """A teacher's part in rosters: for every lesson a new key and one roster."""

    def __init__(self, identity: Identity, least: int, allowed: Collection[str], root: bytes | None = None) -> None:
        self.identity, self.least, self.allowed, self.root = identity, least, allowed, root
        self._secrets: dict[str, tuple[bytes, Hello]] = {}
        self._maskers: dict[str, Masker] = {}

    def hello(self, lesson: str) -> Hello:
        """Make a key for a lesson and sign it; asked again, give the same one."""
        if lesson not in self._secrets:
            secret = secrets.token_bytes(KEY)
            self._secrets[lesson] = secret, self.identity.hello(lesson, public_key(secret))
        return self._secrets[lesson][1]

    def read(self, told: Sequence[Json]) -> list[Hello]:
        """Read the hellos of all teachers, or raise ValueError, TypeError or KeyError."""
        return [Hello.from_dict(one) for one in told]

    def join(self, lesson: str, hellos: Sequence[Hello]) -> Masker:
        """Verify the hellos of all teachers, and mask on this roster from now on and on no other of this lesson."""
        if lesson not in self._secrets:
            raise QueryRefused(f"this teacher was not asked for a key for lesson {lesson!r}: ask for its hello first")
        for hello in hellos:
            if hello.lesson != lesson:
                raise QueryRefused(f"the key of teacher {hello.name!r} is for lesson {hello.lesson!r}: ask it for one")
            verify(hello, self.allowed, self.root)
        roster = [(hello.name, hello.key) for hello in hellos]
        made = Masker(self._secrets[lesson][0], roster, self.identity.name, lesson, self.least)
        kept = self._maskers.setdefault(lesson, made)
        if kept.digest != made.digest:
            raise QueryRefused(f"lesson {lesson!r} has another roster already: begin another lesson")
        return kept


def common_name(shown: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return the one common name on a certificate or a request; none where there is not one."""
    names = shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _fingerprint(certificate: bytes) -> str:
    """Write a certificate's fingerprint as policies do."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"
