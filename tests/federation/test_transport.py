"""The server's port: mutual TLS always. The oracle is the first frame that HTTP/2 owes to a client it accepts."""

from __future__ import annotations

import datetime
import json
import socket
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
DAY = datetime.timedelta(days=1)


def answer(town, context) -> bytes:
    """What the server says to a client's greeting; nothing where it hangs up."""
    try:
        with socket.create_connection(("127.0.0.1", town.project.port), timeout=10) as plain:
            plain.settimeout(10)
            line = plain if context is None else context.wrap_socket(plain, server_hostname=town.project.host)
            line.sendall(HELLO)
            return line.recv(9)
    except (ssl.SSLError, ConnectionError, BrokenPipeError):
        return b""


def accepted(reply: bytes) -> bool:
    """Whether the reply is a SETTINGS frame."""
    return len(reply) == 9 and reply[3] == 4


def context_of(town, certificate=None, key=None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(town.kit("north") / "startup" / "rootCA.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def make_certificate(folder, issuer_name, issuer_key, begin, end):
    """A client's certificate by any issuer, for any time."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "north")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer_name or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .sign(issuer_key or key, hashes.SHA256())
    )
    (folder / "c.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "k.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return folder / "c.pem", folder / "k.pem"


@pytest.fixture
def authority(town):
    """The federation's own certificate authority."""
    state = town.folder / "certificate-authority" / town.project.name / "state" / "cert.json"
    stored = json.loads(state.read_text())
    root = x509.load_pem_x509_certificate(stored["root_cert"].encode())
    return root.subject, serialization.load_pem_private_key(stored["root_pri_key"].encode(), None)


def now():
    return datetime.datetime.now(datetime.UTC)


def test_a_teacher_of_the_federation_is_accepted(town):
    """The way these tests look at the door works."""
    kit = town.kit("north") / "startup"
    assert accepted(answer(town, context_of(town, kit / "client.crt", kit / "client.key")))


def test_a_valid_certificate_of_the_authority_is_accepted(town, authority, tmp_path):
    """So is one made here, which shows that what is refused below is refused for its fault."""
    assert accepted(answer(town, context_of(town, *make_certificate(tmp_path, *authority, now() - DAY, now() + DAY))))


def test_plain_text_is_refused(town):
    """Without TLS there is no answer."""
    assert not accepted(answer(town, None))


def test_no_certificate_is_refused(town):
    """A client that knows the server but cannot show who it is."""
    assert not accepted(answer(town, context_of(town)))


def test_an_unknown_certificate_is_refused(town, tmp_path):
    """Self-signed, with a teacher's name on it."""
    made = make_certificate(tmp_path, None, None, now() - DAY, now() + DAY)
    assert not accepted(answer(town, context_of(town, *made)))


def test_a_certificate_of_another_authority_is_refused(town, authority, tmp_path):
    """Signed by an authority of the same name with another key."""
    key = rsa.generate_private_key(65537, 2048)
    made = make_certificate(tmp_path, authority[0], key, now() - DAY, now() + DAY)
    assert not accepted(answer(town, context_of(town, *made)))


def test_an_expired_certificate_is_refused(town, authority, tmp_path):
    """Signed by the right authority, but over since yesterday."""
    made = make_certificate(tmp_path, *authority, now() - 9 * DAY, now() - DAY)
    assert not accepted(answer(town, context_of(town, *made)))
