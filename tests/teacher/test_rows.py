"""The products of row blocks against plain NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from superteach.optim.problem import Scaling
from superteach.teacher.rows import DenseBlock, Rows, SparseBlock

FORMS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "integers": lambda X: np.rint(3.0 * X).astype(np.int64),
    "csr": sparse.csr_array,
    "csr32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
    "csc": sparse.csc_matrix,
}
SCALINGS = list(itertools.product([0.0, 1.0, 2.5], [False, True], [False, True]))


def data(rows: int, features: int) -> np.ndarray:
    """Rows with some zeros in them."""
    rng = np.random.default_rng(rows + features)
    return rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.6)


def plain(features, scaling: Scaling, chosen) -> np.ndarray:
    """The scaled rows, constant column last, as one float64 matrix."""
    dense = features.toarray() if sparse.issparse(features) else features
    whole = np.asarray(dense, dtype=np.float64)
    if chosen is not None:
        whole = whole[chosen]
    if scaling.centre is not None:
        whole = whole - scaling.centre
    if scaling.scale is not None:
        whole = whole / scaling.scale
    if scaling.constant:
        whole = np.column_stack([whole, np.full(len(whole), scaling.constant)])
    return whole


def check_products(features, scaling: Scaling, chosen=None) -> int:
    """Compare every product with NumPy's on the whole matrix; return how many blocks there were."""
    whole = plain(features, scaling, chosen)
    rng = np.random.default_rng(1)
    point, weights = rng.standard_normal(whole.shape[1]), rng.random(features.shape[0])
    used = weights if chosen is None else weights[chosen]
    times, wheres = [], []
    total, gram = np.zeros(len(point)), np.zeros((len(point), len(point)))
    blocks = list(Rows(features).blocks(scaling, chosen))
    kind = SparseBlock if sparse.issparse(features) else DenseBlock
    for where, block in blocks:
        assert isinstance(block, kind)
        times.append(block.times(point))
        total += block.weighted_sum(weights[where])
        gram += block.gram(weights[where])
        wheres.append(np.arange(features.shape[0])[where])
    order = np.arange(features.shape[0]) if chosen is None else chosen
    # Relative to the sums of absolute terms, which is what float64 can promise.
    close = {"rtol": 1e-11, "atol": 1e-14 * max(1000, len(order))}
    np.testing.assert_array_equal(np.concatenate(wheres), order)
    np.testing.assert_allclose(np.concatenate(times), whole @ point, **close)
    np.testing.assert_allclose(total, whole.T @ used, **close)
    np.testing.assert_allclose(gram, whole.T @ (used[:, None] * whole), **close)
    return len(blocks)


def scaling_of(constant: float, centred: bool, scaled: bool, features: int) -> Scaling:
    """A scaling with or without its parts."""
    rng = np.random.default_rng(7)
    centre = rng.standard_normal(features) if centred else None
    return Scaling(constant, centre, 0.5 + rng.random(features) if scaled else None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("constant", "centred", "scaled"), SCALINGS)
@pytest.mark.parametrize("subset", [False, True])
def test_products(form, constant, centred, scaled, subset):
    """Every product, for every kind of matrix and scaling, for all rows and for some."""
    features = FORMS[form](data(60, 4))
    chosen = np.array([0, 3, 4, 17, 58, 59]) if subset else None
    assert check_products(features, scaling_of(constant, centred, scaled, 4), chosen) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("blocks", "more"), [(0, 1), (1, -1), (1, 0), (1, 1), (2, 77)])
@pytest.mark.parametrize("subset", [False, True])
def test_products_over_several_blocks(form, blocks, more, subset):
    """The sums over blocks are the sums over rows, wherever the boundaries fall."""
    size = 1 << (16 if form.startswith("cs") else 15)
    rows = blocks * size + more
    chosen = np.arange(2 * rows)[::2] if subset else None
    features = FORMS[form](data(2 * rows if subset else rows, 3))
    assert check_products(features, scaling_of(2.0, True, True, 3), chosen) == -(-rows // size)


@pytest.mark.parametrize("features", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_products_of_narrow_and_wide_rows(features, constant):
    """Both ways to form a Gram matrix agree with NumPy, on either side of their border."""
    check_products(data(3000, features), scaling_of(constant, True, False, features))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("centred", [False, True])
def test_square_sums(form, centred):
    """Σ(x − centre)² by column, which standard deviations come from."""
    features = FORMS[form](data(60, 4))
    scaling = scaling_of(0.0, centred, False, 4)
    total = sum(block.square_sums() for _, block in Rows(features).blocks(scaling))
    np.testing.assert_allclose(total, (plain(features, scaling, None) ** 2).sum(axis=0), rtol=1e-12)


def test_no_rows_chosen_means_no_blocks():
    """An empty choice has nothing to add."""
    assert list(Rows(data(9, 2)).blocks(Scaling(), np.empty(0, dtype=np.int64))) == []


@pytest.mark.parametrize("form", ["float64", "float32", "csr", "csr32"])
def test_sums_are_exact_to_float64(form):
    """float32 rows are added up in float64: a long sum keeps its small terms."""
    features = FORMS[form](np.full((200_000, 1), 0.1))
    value = float(np.float32(0.1)) if form.endswith("32") else 0.1
    total = sum(
        block.weighted_sum(np.ones(where.stop - where.start))[0] for where, block in Rows(features).blocks(Scaling())
    )
    assert total == pytest.approx(200_000 * value, rel=1e-11)
    squares = sum(block.square_sums()[0] for _, block in Rows(features).blocks(Scaling()))
    assert squares == pytest.approx(200_000 * value**2, rel=1e-11)


@pytest.mark.parametrize("form", ["float64", "csr"])
def test_spread_around_a_large_mean(form):
    """Standard deviations survive columns whose mean is a million times larger."""
    X = 1e6 + np.random.default_rng(0).standard_normal((500, 2))
    centre = X.mean(axis=0)
    total = sum(block.square_sums() for _, block in Rows(FORMS[form](X)).blocks(Scaling(centre=centre)))
    np.testing.assert_allclose(total, ((X - centre) ** 2).sum(axis=0), rtol=1e-9)
