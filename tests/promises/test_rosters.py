"""Who is on a roster: what a lying relay could change is refused, and so is a second roster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from superteach.errors import QueryRefused, SettingError
from superteach.promises.fixed import add_words, from_words, to_words
from superteach.promises.rosters import Hello, Identity, Rosters, verify

NAMES = ("north", "south", "east", "west")
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


def root_of(which: str) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    now, key = datetime.now(UTC), rsa_key(which)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(PEM)


def site(name: str = "north") -> Identity:
    """An identity from a start-up kit: RSA, issued by the root."""
    return Identity(pem_of(rsa_key("site")), issued(name, rsa_key("site")))


@pytest.mark.parametrize("make", [site, lambda: Identity.ephemeral("north")], ids=["kit", "one process"])
def test_a_signed_key_is_accepted_and_no_changed_one(make):
    own, other = make(), Identity.ephemeral("north")
    hello = own.hello("lesson", 1, b"k" * 32)
    verify(hello, {own.fingerprint})
    changes = ({"lesson": "other"}, {"attempt": 2}, {"key": b"K" * 32}, {"signature": b""}, {"signature": bytes(64)},
               {"signature": other.hello("lesson", 1, b"k" * 32).signature})  # fmt: skip
    for change in changes:
        with pytest.raises(QueryRefused, match=r"key of teacher 'north' is not accepted: its signature is not that"):
            verify(replace(hello, **change), {own.fingerprint})
    with pytest.raises(QueryRefused, match="signature is not that of its certificate"):
        verify(replace(hello, certificate=other.certificate))
    with pytest.raises(QueryRefused, match=f"policy does not list its certificate \\({other.fingerprint}"):
        verify(other.hello("lesson", 1, b"k" * 32), {own.fingerprint})
    with pytest.raises(QueryRefused, match="its certificate is for 'north'; a teacher goes by the name"):
        verify(replace(hello, name="south"), {own.fingerprint})
    with pytest.raises(QueryRefused, match="certificate cannot be read"):
        verify(replace(hello, certificate=b"none"))


def test_a_copy_of_a_key_speaks_for_its_teacher():
    """Whoever made the kits and kept the keys could be all teachers but one: policies list certificates, not people."""
    own, copy = site(), site()
    verify(copy.hello("lesson", 1, b"k" * 32), {own.fingerprint}, root_of("root"))


def test_the_name_is_part_of_what_is_signed():
    """Two names cannot share a signature, even where one key holds certificates for both."""
    north, south = site("north"), site("south")
    hello = north.hello("lesson", 1, b"k" * 32)
    with pytest.raises(QueryRefused, match="signature is not that"):
        verify(replace(hello, name="south", certificate=south.certificate))


def test_a_fingerprint_is_that_of_the_certificate():
    own = site()
    expected = x509.load_der_x509_certificate(own.certificate).fingerprint(hashes.SHA256()).hex()
    assert own.fingerprint == f"sha256:{expected}"


def test_the_root_must_have_issued_the_certificate():
    hello = site().hello("lesson", 1, b"k" * 32)
    verify(hello, None, root_of("root"))
    stranger = Identity(pem_of(rsa_key("site")), issued("north", rsa_key("site"), signer=rsa_key("site")))
    for odd, root in (
        (hello, root_of("site")),
        (stranger.hello("lesson", 1, b"k" * 32), root_of("root")),
        (Identity.ephemeral("north").hello("lesson", 1, b"k" * 32), root_of("root")),
    ):
        with pytest.raises(QueryRefused, match="was not issued by this federation"):
            verify(odd, None, root)


def test_a_certificate_must_hold_today():
    late = Identity(pem_of(rsa_key("site")), issued("north", rsa_key("site"), days=-2))
    with pytest.raises(QueryRefused, match=r"holds from \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d, not today"):
        verify(late.hello("lesson", 1, b"k" * 32))


def test_keys_that_cannot_sign_are_told_to_their_owner():
    curve, plain = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(SettingError, match="RSA or Ed25519"):
        Identity(pem_of(curve), issued("north", curve))
    with pytest.raises(SettingError, match="not for this private key"):
        Identity(pem_of(rsa_key("root")), issued("north", rsa_key("site")))
    with pytest.raises(SettingError, match="must be PEM"):
        Identity(b"none", issued("north", plain))
    for name in ("", "n" * 65):
        with pytest.raises(SettingError, match="1 to 64 characters"):
            Identity.ephemeral(name)
    hello = Hello("north", "lesson", 1, b"k" * 32, x509.load_pem_x509_certificate(issued("north", curve)).public_bytes(
        serialization.Encoding.DER))  # fmt: skip
    with pytest.raises(QueryRefused, match="RSA and Ed25519 are known"):
        verify(hello)


# Rosters ---------------------------------------------------------------------------------------------


def teachers() -> dict[str, Rosters]:
    identities = {name: Identity.ephemeral(name) for name in NAMES}
    allowed = {own.fingerprint for own in identities.values()}
    return {name: Rosters(own, allowed=allowed) for name, own in identities.items()}


def hellos(all_: dict[str, Rosters], attempt: int, names=NAMES) -> list[Hello]:
    return [all_[name].hello("lesson", attempt) for name in names]


def ask(all_: dict[str, Rosters], attempt: int, round: int, names=NAMES) -> float:
    """One round: teacher k answers k + 1."""
    told = hellos(all_, attempt, names)
    words = [to_words(np.array([NAMES.index(name) + 1.0]), 4) for name in names]
    joined = [all_[name].join("lesson", attempt, told) for name in names]
    return float(from_words(add_words(*(one.mask(round, word) for one, word in zip(joined, words, strict=True))))[0])


def test_a_lost_teacher_is_followed_by_a_new_roster_with_new_keys():
    all_ = teachers()
    assert ask(all_, 1, 0) == 10.0
    assert ask(all_, 1, 1) == 10.0
    before = {hello.key for hello in hellos(all_, 1)}
    assert ask(all_, 2, 1, NAMES[:3]) == 6.0
    assert not before & {hello.key for hello in hellos(all_, 2, NAMES[:3])}
    with pytest.raises(QueryRefused, match="round 0 of lesson 'lesson' is over, go on from round 1"):
        ask(all_, 2, 0, NAMES[:3])  # 10 - 6 would be the lost teacher's own
    with pytest.raises(QueryRefused, match="round 0"):
        ask(all_, 3, 0, NAMES[:3])
    with pytest.raises(QueryRefused, match="wants at least 3"):
        ask(all_, 4, 2, NAMES[:2])


def test_an_attempt_has_one_roster_and_attempts_only_go_up():
    all_ = teachers()
    told = hellos(all_, 2)
    north = all_["north"]
    masker = north.join("lesson", 2, told)
    assert north.join("lesson", 2, told[::-1]) is masker  # the same message again; it remembers what it answered
    with pytest.raises(QueryRefused, match="attempt 2 at lesson 'lesson' has another roster: begin a new attempt"):
        north.join("lesson", 2, told[:3])
    for attempt in (1, 3):
        with pytest.raises(
            QueryRefused, match=f"this is attempt 2 of lesson 'lesson', not {attempt}: attempts only go up"
        ):
            north.join("lesson", attempt, told)
    with pytest.raises(QueryRefused, match="attempts only go up"):
        north.hello("lesson", 1)
    assert north.hello("lesson", 2) == told[0]
    newer = north.hello("lesson", 3)
    assert newer.key != told[0].key
    with pytest.raises(QueryRefused, match="attempts only go up"):
        north.join("lesson", 2, told)
    with pytest.raises(QueryRefused, match="'south' is for attempt 2 at lesson 'lesson'"):
        north.join("lesson", 3, [newer, *told[1:]])
    with pytest.raises(QueryRefused, match="this is attempt None of lesson 'other'"):
        north.join("other", 1, told)


def test_a_relay_cannot_change_keys_or_invent_teachers():
    all_ = teachers()
    told = hellos(all_, 1)
    north, relay = all_["north"], Identity.ephemeral("south")
    key = b"r" * 32
    swapped = [told[0], replace(told[1], key=key), *told[2:]]
    resigned = [told[0], relay.hello("lesson", 1, key), *told[2:]]
    invented = [*told, Identity.ephemeral("fifth").hello("lesson", 1, key)]
    for odd, message in (
        (swapped, "'south' is not accepted: its signature"),
        (resigned, "'south' is not accepted: the policy does not list"),
        (invented, "'fifth' is not accepted: the policy does not list"),
        ([all_["north"].identity.hello("lesson", 1, key), *told[1:]], "lacks 'north' with its own key"),
        (told[1:], "lacks 'north'"),
        ([*told, told[1]], "one name twice"),
    ):
        with pytest.raises(QueryRefused, match=message):
            north.join("lesson", 1, odd)
    north.join("lesson", 1, told)  # what was refused has used up nothing


def test_an_identity_signs_for_its_own_name_only():
    """A listed teacher that answers under another's name is refused: the name is the certificate's."""
    all_ = teachers()
    told = hellos(all_, 1)
    liar = replace(all_["west"].identity.hello("lesson", 1, b"l" * 32), name="fifth")
    with pytest.raises(QueryRefused, match="its certificate is for 'west'"):
        all_["north"].join("lesson", 1, [*told, liar])
