"""Masks: they cancel in the total, hide every single reply, and never serve twice."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest
from scipy.stats import chi2

from superteach.errors import QueryRefused, SettingError
from superteach.privacy.fixed import add_words, from_words, grid_to_words, to_words, words_to_grid
from superteach.privacy.guard import simulated
from superteach.privacy.masks import Masker, encoded, public_key
from superteach.privacy.terms import PromiseTerms


def secret(k: int) -> bytes:
    return hashlib.sha256(b"key %d" % k).digest()


def roster_of(teachers: int, skip: int = 0) -> list[tuple[str, bytes]]:
    """Teachers whose names are not in the order of their numbers."""
    return [(f"t{k * 7 % 53}", public_key(secret(k + skip))) for k in range(teachers)]


def maskers(teachers: int, kind: type[Masker] = Masker) -> list[Masker]:
    roster = roster_of(teachers)
    turned = [roster[k:] + roster[:k] for k in range(teachers)]  # the order of a roster does not matter
    return [kind(secret(k), turned[k], roster[k][0], "lesson", least=2) for k in range(teachers)]


@pytest.mark.parametrize("teachers", [2, 3, 4, 5, 7, 10, 20, 35, 50])
def test_masks_cancel_to_the_last_bit(teachers):
    rng = np.random.default_rng(teachers)
    parts = [rng.standard_normal(40) * 10.0 ** rng.uniform(-20, 20, 40) for _ in range(teachers)]
    words = [to_words(part, teachers) for part in parts]
    everyone = maskers(teachers)
    masked = add_words(*(one.mask(0, word) for one, word in zip(everyone, words, strict=True)))
    np.testing.assert_array_equal(masked, add_words(*words))
    np.testing.assert_array_equal(from_words(masked), from_words(add_words(*words)))
    counts = [rng.integers(-(10**15), 10**15, 9) for _ in range(teachers)]
    replies = [one.mask(1, grid_to_words(count, teachers)) for one, count in zip(everyone, counts, strict=True)]
    np.testing.assert_array_equal(words_to_grid(add_words(*replies)), sum(counts))
    fewer = add_words(*replies[:-1])  # one reply missing: nothing to read
    assert not np.any(words_to_grid(fewer) == sum(counts[:-1]))


class Unmasked(Masker):
    """The mask switched off."""

    def mask(self, round, words):
        return words


def unlikely(words: np.ndarray) -> float:
    """The least chance of such bytes under a uniform draw, over the bytes at each of the places of a word."""
    places = words.astype("<u8").view(np.uint8).reshape(len(words), -1).T
    expected = len(words) / 256
    return min(chi2.sf(((np.bincount(place, minlength=256) - expected) ** 2 / expected).sum(), 255) for place in places)


@pytest.mark.parametrize("limbs", [1, 3])
def test_a_single_reply_looks_like_chance(limbs):
    values = np.random.default_rng(0).standard_normal(20_000)

    def reply(kind):
        words = to_words(values, 3) if limbs == 3 else grid_to_words((values * 1e15).astype(np.int64), 3)
        return maskers(3, kind)[1].mask(0, words)

    assert unlikely(reply(Masker)) > 1e-4
    assert unlikely(reply(Unmasked)) < 1e-100


def test_two_replies_are_not_alike():
    """The difference of two replies is as random as each; under one mask it would be that of the numbers."""
    words = to_words(np.random.default_rng(1).standard_normal(20_000), 3)
    one = maskers(3)[0]
    assert unlikely(one.mask(0, words) - one.mask(1, words)) > 1e-4


# Reuse -----------------------------------------------------------------------------------------------


def without(*left_out: int) -> type[Masker]:
    """A masker whose keys do not depend on all that they are for."""

    class Forgetful(Masker):
        def info(self, round, peer):
            facts = ("mask", self.lesson, self.digest, round, *sorted((self.name, peer)))
            return encoded(*(fact for i, fact in enumerate(facts) if i not in left_out))

    return Forgetful


def shared_words(kind: type[Masker]) -> int:
    """Words that masks of two lessons, rosters, rounds or pairs have in common."""
    roster, nothing, drawn = roster_of(4), np.zeros((500, 3), np.uint64), []
    name = roster[0][0]
    for lesson in ("a", "b"):
        for members in (roster, roster[:3]):
            one = kind(secret(0), members, name, lesson)
            drawn += [one.mask(round, nothing) for round in (0, 1, 256, 2**32)]
    pair = (
        kind(secret(0), roster[:2], name, "a", least=2),
        kind(secret(0), [roster[0], roster[2]], name, "a", least=2),
    )
    drawn += [one.mask(0, nothing) for one in pair]
    everything = np.concatenate(drawn).ravel()
    return len(everything) - len(np.unique(np.concatenate([everything, -everything]))) // 2


def test_no_mask_word_comes_twice():
    assert shared_words(Masker) == 0


@pytest.mark.parametrize("left_out", [(1,), (3,), (1, 2, 3)], ids=["lesson", "round", "all"])
def test_reuse_is_seen(left_out):
    assert shared_words(without(*left_out)) > 0


def test_the_roster_is_part_of_every_key():
    """Without its digest the mask of three is that of two pairs: what one roster shows would open another's."""
    nothing, roster = np.zeros((50, 3), np.uint64), roster_of(3)

    def drawn(kind, *members):
        one = kind(secret(0), [roster[k] for k in members], roster[0][0], "a", least=2)
        return one.mask(0, nothing)

    def comes_apart(kind):
        return np.mean(drawn(kind, 0, 1, 2) == add_words(drawn(kind, 0, 1), drawn(kind, 0, 2)))

    assert comes_apart(Masker) == 0.0
    assert comes_apart(without(2)) == 1.0


def test_a_mask_serves_once():
    one = maskers(3)[0]
    first = to_words(np.array([1.0, 2.0]), 3)
    reply = one.mask(4, first)
    np.testing.assert_array_equal(one.mask(4, first), reply)  # the same message again
    for other in (to_words(np.array([1.0, 3.0]), 3), first[:1], first[:, :1], first.reshape(-1, 1)):
        with pytest.raises(
            QueryRefused, match="round 4 was answered with other numbers, a mask serves once: ask another"
        ):
            one.mask(4, other)
    one.mask(5, to_words(np.array([1.0, 3.0]), 3))


# Rosters that are refused ----------------------------------------------------------------------------


def test_odd_rosters_are_refused():
    roster = roster_of(4)
    name, key = roster[0]
    cases = {
        "has 2 teachers, this one wants at least 3": roster[:2],
        f"lacks '{name}' with its own key": roster[1:],
        "lacks 't0' with its own key": [(name, public_key(secret(9))), *roster[1:]],
        r"one name twice \(4 for 5": [*roster, (roster[1][0], public_key(secret(9)))],
        r"one key twice \(4 for 5": [*roster, ("other", roster[1][1])],
        "is no X25519 key": [*roster, ("other", b"short")],
        r"the key of 'other' \(0000": [*roster, ("other", bytes(32))],
    }
    for message, odd in cases.items():
        with pytest.raises(QueryRefused, match=message):
            Masker(secret(0), odd, name, "lesson")
    with pytest.raises(SettingError, match="at least 1 teachers hides nothing"):
        Masker(secret(0), [(name, key)], name, "lesson", least=1)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "superteach.privacy.masks")
    with pytest.raises(SettingError, match=r"pip install 'superteach\[private\]'"):
        simulated(PromiseTerms("masked", 3))
