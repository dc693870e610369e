"""Keys of rows: SipHash against its authors' test vectors, and what makes two rows one."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.errors import DataError
from superteach.privacy.keys import BLOCK, row_keys, siphash

SECRET = bytes(range(32))


@pytest.mark.parametrize(("words", "expected"), [(1, 0x93F5F5799A932462), (2, 0x3F2ACC7F57C29BDB)])
def test_siphash_gives_its_authors_values(words, expected):
    """Messages of the bytes 0, 1, 2 … under the key of the bytes 0 to 15."""
    first, second = np.arange(16, dtype=np.uint8).view("<u8")
    message = [np.repeat(word, 3) for word in np.arange(8 * words, dtype=np.uint8).view("<u8")]
    assert siphash(message, first, second).tolist() == [expected] * 3


def table(rows: int = 40):
    rng = np.random.default_rng(2)
    return rng.normal(size=(rows, 5)), rng.choice(["a", "b", "çø"], rows)


def test_a_row_keeps_its_key_wherever_it_stands():
    """In any order, with rows more or less, alone, and beyond the end of a block."""
    X, y = table(BLOCK + 40)
    keys = row_keys([X, y], SECRET)
    assert keys.dtype == np.uint64
    assert len(np.unique(keys)) == len(keys)
    order = np.random.default_rng(3).permutation(len(X))
    assert (row_keys([X[order], y[order]], SECRET) == keys[order]).all()
    for some in ([0], [BLOCK, 3], slice(1, None)):
        assert (row_keys([X[some], y[some]], SECRET) == keys[some]).all()
    assert row_keys([X[:0], y[:0]], SECRET).shape == (0,)


def test_every_value_every_column_and_the_secret_count():
    X, y = table()
    keys = row_keys([X, y], SECRET)
    for column in range(5):
        changed = X.copy()
        changed[:, column] = np.nextafter(changed[:, column], np.inf)
        assert (row_keys([changed, y], SECRET) != keys).all()
    assert (row_keys([X, np.where(y == "a", "b", "a")], SECRET) != keys).all()
    assert (row_keys([X[:, ::-1], y], SECRET) != keys).all()
    assert (row_keys([X, y], SECRET[::-1]) != keys).all()
    assert (row_keys([X], SECRET) != keys).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1, 2, 0]), np.array([1.0, 2.0, -0.0])),
        (np.array([1, 2], np.uint8), np.array([1, 2], np.float32)),
        (np.array([True, False]), np.array([1, 0])),
        (np.array([1, 2.5], object), np.array([1.0, 2.5])),
        (np.array([1 << 60, 5]), np.array([2.0**60, 5])),
        (np.array([(1 << 60) + 1, (1 << 63) - 1]), np.array([(1 << 60) + 1, (1 << 63) - 1], np.uint64)),
        (np.array(["a", "bc"]), np.array(["a", "bc"], object)),
        (np.array(["2020-01-02"], "M8[D]"), np.array(["2020-01-02T00:00"], "M8[ns]")),
        (np.array([np.nan]), -np.array([np.nan])),
    ],
)
def test_one_value_in_two_types_is_one_row(one, other):
    assert (row_keys([one], SECRET) == row_keys([other], SECRET)).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1 << 60]), np.array([(1 << 60) + 1])),
        (np.array([-1]), np.array([np.iinfo(np.uint64).max], np.uint64)),
        (np.array(["1"]), np.array([1])),
        (np.array(["a"]), np.array(["a "])),
    ],
)
def test_two_values_are_two_rows(one, other):
    assert (row_keys([one], SECRET) != row_keys([other], SECRET)).all()


@pytest.mark.parametrize("columns", [[], [np.zeros(3), np.zeros(2)], [np.zeros((2, 2)), np.zeros(3)], [np.float64(1)]])
def test_columns_that_make_no_rows_are_an_error(columns):
    with pytest.raises(DataError, match="make no rows"):
        row_keys(columns, SECRET)
