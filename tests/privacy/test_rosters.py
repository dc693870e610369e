"""Who is on a roster: what a lying relay could change is refused, and so is a second roster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from superteach.errors import QueryRefused, SettingError
from superteach.privacy.fixed import add_words, from_words, to_words
from superteach.privacy.rosters import Hello, Identity, Rosters, verify
from tests.identities import identity, issued, pem_of, rsa_key

NAMES = ("north", "south", "east", "west")
PEM = serialization.Encoding.PEM


def root_of(which: str) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    now, key = datetime.now(UTC), rsa_key(which)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(PEM)


def test_a_signed_key_is_accepted_and_no_changed_one():
    own, other = identity("north"), identity("north", "another")
    hello = own.hello("lesson", b"k" * 32)
    verify(hello, {own.fingerprint})
    changes = ({"lesson": "other"}, {"key": b"K" * 32}, {"signature": b""}, {"signature": bytes(64)},
               {"signature": other.hello("lesson", b"k" * 32).signature})  # fmt: skip
    for change in changes:
        with pytest.raises(QueryRefused, match=r"key of teacher 'north' is not accepted: its signature is not that"):
            verify(replace(hello, **change), {own.fingerprint})
    with pytest.raises(QueryRefused, match="signature is not that of its certificate"):
        verify(replace(hello, certificate=other.certificate), {other.fingerprint})
    with pytest.raises(QueryRefused, match=f"policy does not list its certificate \\({other.fingerprint}"):
        verify(other.hello("lesson", b"k" * 32), {own.fingerprint})
    with pytest.raises(QueryRefused, match="its certificate is for 'north'; a teacher goes by the name"):
        verify(replace(hello, name="south"), {own.fingerprint})
    with pytest.raises(QueryRefused, match="certificate cannot be read"):
        verify(replace(hello, certificate=b"none"), {own.fingerprint})


def test_a_copy_of_a_key_speaks_for_its_teacher():
    """Whoever made the kits and kept the keys could be all teachers but one: policies list certificates, not people."""
    own, copy = identity("north"), identity("north")
    verify(copy.hello("lesson", b"k" * 32), {own.fingerprint}, root_of("root"))


def test_the_name_is_part_of_what_is_signed():
    """Two names cannot share a signature, even where one key holds certificates for both."""
    north, south = identity("north"), identity("south")
    hello = north.hello("lesson", b"k" * 32)
    with pytest.raises(QueryRefused, match="signature is not that"):
        verify(replace(hello, name="south", certificate=south.certificate), {south.fingerprint})


def test_a_fingerprint_is_that_of_the_certificate():
    own = identity("north")
    expected = x509.load_der_x509_certificate(own.certificate).fingerprint(hashes.SHA256()).hex()
    assert own.fingerprint == f"sha256:{expected}"


def test_the_root_must_have_issued_the_certificate():
    own, stranger = identity("north"), identity("north", signer="site")
    hello, listed = own.hello("lesson", b"k" * 32), {own.fingerprint, stranger.fingerprint}
    verify(hello, listed, root_of("root"))
    for odd, root in ((hello, root_of("site")), (stranger.hello("lesson", b"k" * 32), root_of("root"))):
        with pytest.raises(QueryRefused, match="was not issued by this federation"):
            verify(odd, listed, root)


def test_a_certificate_must_hold_today():
    late = Identity(pem_of(rsa_key("site")), issued("north", rsa_key("site"), days=-2))
    with pytest.raises(QueryRefused, match=r"holds from \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d, not today"):
        verify(late.hello("lesson", b"k" * 32), {late.fingerprint})


def test_keys_that_cannot_sign_are_told_to_their_owner():
    curve, plain = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(SettingError, match="keys sign with RSA"):
        Identity(pem_of(curve), issued("north", curve))
    with pytest.raises(SettingError, match="not for this private key"):
        Identity(pem_of(rsa_key("root")), issued("north", rsa_key("site")))
    with pytest.raises(SettingError, match="must be PEM"):
        Identity(b"none", issued("north", plain))
    shown = x509.load_pem_x509_certificate(issued("north", curve))
    hello = Hello("north", "lesson", b"k" * 32, shown.public_bytes(serialization.Encoding.DER))
    with pytest.raises(QueryRefused, match="only RSA is known"):
        verify(hello, {f"sha256:{shown.fingerprint(hashes.SHA256()).hex()}"})


# Rosters ---------------------------------------------------------------------------------------------


def teachers() -> dict[str, Rosters]:
    identities = {name: identity(name, name) for name in NAMES}
    allowed = {own.fingerprint for own in identities.values()}
    return {name: Rosters(own, 3, allowed) for name, own in identities.items()}


def hellos(all_: dict[str, Rosters], lesson: str = "lesson", names=NAMES) -> list[Hello]:
    return [all_[name].hello(lesson) for name in names]


def ask(all_: dict[str, Rosters], lesson: str, names=NAMES) -> float:
    """One round: teacher k answers k + 1."""
    told = hellos(all_, lesson, names)
    words = [to_words(np.array([NAMES.index(name) + 1.0]), 4) for name in names]
    joined = [all_[name].join(lesson, told) for name in names]
    return float(from_words(add_words(*(one.mask(0, word) for one, word in zip(joined, words, strict=True))))[0])


def test_a_lost_teacher_is_followed_by_another_lesson_with_new_keys():
    all_ = teachers()
    assert ask(all_, "lesson") == 10.0
    with pytest.raises(QueryRefused, match="'lesson' has another roster already: begin another lesson"):
        ask(all_, "lesson", NAMES[:3])  # 10 - 6 would be the lost teacher's own
    assert ask(all_, "other", NAMES[:3]) == 6.0
    assert not {hello.key for hello in hellos(all_)} & {hello.key for hello in hellos(all_, "other")}
    with pytest.raises(QueryRefused, match="wants at least 3"):
        ask(all_, "third", NAMES[:2])


def test_a_lesson_has_one_key_and_one_roster():
    all_ = teachers()
    told = hellos(all_)
    north = all_["north"]
    masker = north.join("lesson", told)
    assert north.join("lesson", told[::-1]) is masker  # the same message again; it remembers what it answered
    assert north.hello("lesson") == told[0]
    with pytest.raises(QueryRefused, match="was not asked for a key for lesson 'other'"):
        north.join("other", told)
    newer = north.hello("other")
    assert newer.key != told[0].key
    with pytest.raises(QueryRefused, match="'south' is for lesson 'lesson': ask it for one"):
        north.join("other", [newer, *told[1:]])


def test_a_relay_cannot_change_keys_or_invent_teachers():
    all_ = teachers()
    told = hellos(all_)
    north, relay = all_["north"], identity("south", "relay")
    key = b"r" * 32
    swapped = [told[0], replace(told[1], key=key), *told[2:]]
    resigned = [told[0], relay.hello("lesson", key), *told[2:]]
    invented = [*told, identity("fifth").hello("lesson", key)]
    for odd, message in (
        (swapped, "'south' is not accepted: its signature"),
        (resigned, "'south' is not accepted: the policy does not list"),
        (invented, "'fifth' is not accepted: the policy does not list"),
        ([all_["north"].identity.hello("lesson", key), *told[1:]], "lacks 'north' with its own key"),
        (told[1:], "lacks 'north'"),
        ([*told, told[1]], "one name twice"),
    ):
        with pytest.raises(QueryRefused, match=message):
            north.join("lesson", odd)
    north.join("lesson", told)  # what was refused has used up nothing


def test_an_identity_signs_for_its_own_name_only():
    """A listed teacher that answers under another's name is refused: the name is the certificate's."""
    all_ = teachers()
    told = hellos(all_)
    liar = replace(all_["west"].identity.hello("lesson", b"l" * 32), name="fifth")
    with pytest.raises(QueryRefused, match="its certificate is for 'west'"):
        all_["north"].join("lesson", [*told, liar])
