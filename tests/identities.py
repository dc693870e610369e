"""Identities of teachers as start-up kits hold them: RSA keys, made once for all tests, and certificates of a root."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from superteach.privacy.rosters import Identity

PEM = serialization.Encoding.PEM


@cache
def rsa_key(which: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def pem_of(key) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def issued(name: str, key, root: str = "root", signer=None, days: int = 300) -> bytes:
    """A certificate as a federation issues it, with an organisation beside the common name."""
    subject = [
        x509.NameAttribute(x509.NameOID.COMMON_NAME, name),
        x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "o"),
    ]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, root)]), x509.Name(subject), key.public_key(), 7,
        now - timedelta(days=30), now + timedelta(days=days),
    )  # fmt: skip
    return builder.sign(signer or rsa_key("root"), hashes.SHA256()).public_bytes(PEM)


def identity(name: str, key: str = "site", signer: str = "root") -> Identity:
    """An identity with one of the keys, issued by one of them."""
    return Identity(pem_of(rsa_key(key)), issued(name, rsa_key(key), signer=rsa_key(signer)))
