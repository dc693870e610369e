"""Masks that cancel in the total: whoever adds the replies of all teachers learns their sum, and nothing of a single one.

Any two teachers share a secret (X25519) that nobody else can compute. For every round each pair draws from it one uniform
word per word of the reply (HKDF-SHA256, ChaCha20); the one whose name comes first adds it, the other subtracts it. A
mask must never serve twice: the difference of two replies under one mask is the difference of the numbers.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from superteach.errors import QueryRefused, SettingError
from superteach.privacy.fixed import Words, carried, halves
from superteach.privacy.terms import LEAST

KEY = 32
"""Bytes of a key, of X25519 and of ChaCha20 alike."""
ATTEMPT = 0
"""Stands in every hello and in what every key is for: a lesson under a promise is begun once, or under another name."""


def encoded(*facts: str | int) -> bytes:
    """Write facts as bytes that no other facts have."""
    return json.dumps(["superteach", *facts]).encode()


def public_key(private: bytes) -> bytes:
    """Return the public half of an X25519 key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


class Masker:
    """Masks a teacher's replies in one lesson, on one roster.

    The roster holds name and public X25519 key of every teacher, this one included, its keys already verified.
    """

    def __init__(
        self, private: bytes, roster: Sequence[tuple[str, bytes]], name: str, lesson: str, least: int = LEAST
    ) -> None:
        self.name, self.lesson = name, lesson
        self.roster = sorted(roster)
        _check_roster(self.roster, name, public_key(private), least)
        listed = encoded(*(part for who, key in self.roster for part in (who, key.hex())))
        self.digest = hashlib.sha256(listed).hexdigest()
        self._secrets = {who: _agree(private, who, key) for who, key in self.roster if who != name}
        self._answered: dict[int, bytes] = {}
        self._heard = b""

    def hear(self, *told: bytes) -> None:
        """Take what all teachers were told into every later mask: where one was told something else, none cancels.

        A teacher's part of the noise is enough only beside the parts of the others, under the same terms at the same prices.
        """
        for data in told:
            self._heard = hashlib.sha256(self._heard + hashlib.sha256(data).digest()).digest()

    def mask(self, round: int, words: Words) -> Words:
        """Add this round's masks; the same words may be asked for again, others may not."""
        total = halves(words)
        seen = hashlib.sha256(encoded(*words.shape) + words.tobytes()).digest()
        if self._answered.setdefault(round, seen) != seen:  # two replies under one mask show their difference
            raise QueryRefused(f"round {round} was answered with other numbers, a mask serves once: ask another round")
        blank, stream = bytes(words.nbytes), bytearray(words.nbytes)
        drawn = np.frombuffer(stream, "<u4").reshape(total.shape)
        for peer, secret in self._secrets.items():
            key = HKDFExpand(SHA256(), KEY, self.info(round, peer)).derive(secret)
            # Counter and nonce are 0, for no key comes twice.
            Cipher(ChaCha20(key, bytes(16)), None).encryptor().update_into(blank, stream)
            (np.add if self.name < peer else np.subtract)(total, drawn, out=total)
        return carried(total)

    def info(self, round: int, peer: str) -> bytes:
        """Name all that a key of ChaCha20 is for, and for nothing else."""
        facts = self.lesson, ATTEMPT, self.digest, self._heard.hex(), round
        return encoded("mask", *facts, *sorted((self.name, peer)))


def in_one_process(teachers: int) -> list[Masker]:
    """Make the maskers of teachers who are all in this process, and need no certificates to know each other."""
    keys = {f"{position:06}": secrets.token_bytes(KEY) for position in range(teachers)}
    roster = [(name, public_key(key)) for name, key in keys.items()]
    return [Masker(key, roster, name, "one process") for name, key in keys.items()]


def _check_roster(roster: Sequence[tuple[str, bytes]], name: str, own: bytes, least: int) -> None:
    """Refuse a roster on which a total would show too much, or masks would not cancel."""
    if least < 2:
        raise SettingError(f"a roster of at least {least} teachers hides nothing: the least number must be 2 or more")
    if len(roster) < least:
        raise QueryRefused(f"the roster has {len(roster)} teachers, this one wants at least {least}: wait for more")
    if (name, own) not in roster:
        raise QueryRefused(f"the roster lacks {name!r} with its own key: make it anew from the teachers' own hellos")
    for what, count in (("name", len({who for who, _ in roster})), ("key", len({key for _, key in roster}))):
        if count < len(roster):
            raise QueryRefused(f"the roster has one {what} twice ({count} for {len(roster)}): list each teacher once")


def _agree(private: bytes, peer: str, key: bytes) -> bytes:
    """Agree with a peer on a secret, from which its keys of all rounds are derived."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError as error:
        raise QueryRefused(f"the key of {peer!r} ({key.hex()}) is no X25519 key ({error}): ask for another") from None
    return HKDF(SHA256(), KEY, None, encoded("pair")).derive(shared)
