"""Losses of several predictors, and the pulls that are never built, against differences, loops and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from superteach.exceptions import LearnerError
from superteach.learner import Learner
from superteach.losses import Softmax, SquaredHinges, SquaredLabels, SquaredTargets
from superteach.losses.multioutput import EVERY_LOSS, spread
from superteach.losses.scalar import Huber
from superteach.optim.problem import Scaling
from superteach.selection.relaxation import contrasts, sketch
from superteach.teacher.rows import LiftedBlock, Rows, SeveralBlock, gradient_squares, mapped_gradients

CLASSES, ROWS, WIDTH = 4, 9, 3
LOSSES = [Softmax(CLASSES), SquaredLabels(CLASSES), SquaredHinges(CLASSES), SquaredTargets(CLASSES)]
every = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def some(loss, seed=0):
    """Predictors and targets that suit a loss."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS) if loss.classifies else rng.standard_normal((ROWS, CLASSES))
    return 2.0 * rng.standard_normal((CLASSES, ROWS)), y


def plain(loss, eta, y):
    """The textbook formula, of one row."""
    if loss.name == "softmax":
        return logsumexp(eta) - eta[y]
    signs = np.where(np.arange(CLASSES) == y, 1.0, -1.0) if loss.classifies else y
    if loss.name == "squared_hinges":
        return float((np.maximum(0.0, 1.0 - signs * eta) ** 2).sum())
    return float(0.5 * ((eta - signs) ** 2).sum())


def full(curvature):
    """Curvatures as matrices, row by row, from their factors."""
    found = np.einsum("cj,ce->jce", curvature[0], np.eye(CLASSES))
    if len(curvature) == 2:
        found -= np.einsum("cj,ej,ce->jce", curvature[1], curvature[1], 1.0 - np.eye(CLASSES))
    return found


@every
def test_values_and_derivatives_are_those_of_the_textbook(loss):
    """Values against the formula, slopes and curvatures against central differences."""
    eta, y = some(loss)
    terms, step = loss.terms(eta, y), 1e-5
    assert loss.value(eta, y) == pytest.approx([plain(loss, eta[:, j], y[j]) for j in range(ROWS)], rel=1e-12)
    assert terms.value == pytest.approx(loss.value(eta, y))
    assert loss.gradient(eta, y) == pytest.approx(terms.slope)
    bent = full(terms.curvature)
    for c in range(CLASSES):
        ahead, behind = eta.copy(), eta.copy()
        ahead[c] += step
        behind[c] -= step
        assert terms.slope[c] == pytest.approx((loss.value(ahead, y) - loss.value(behind, y)) / (2 * step), abs=1e-6)
        change = (loss.gradient(ahead, y) - loss.gradient(behind, y)) / (2 * step)
        assert bent[:, c] == pytest.approx(change.T, abs=1e-6)
    both = np.stack([eta, eta + 1.0])
    assert loss.value(both, y)[1] == pytest.approx(loss.value(eta + 1.0, y))
    largest = np.linalg.eigvalsh(bent)[:, -1].max()
    assert largest <= loss.most_curvature + 1e-9


def test_softmax_far_out_keeps_its_digits():
    """Where one class has nearly all, the sum of the others is no difference of ones; far beyond, nothing overflows."""
    eta = np.array([[40.0, -900.0], [0.0, 900.0], [1.0, 0.0]])
    terms = Softmax(3).terms(eta, np.array([0, 1]))
    assert -terms.slope[0, 0] == pytest.approx(np.exp(-40.0) + np.exp(-39.0), rel=1e-12)
    assert np.isfinite(terms.value).all()
    assert terms.slope.sum(axis=0) == pytest.approx(0.0, abs=1e-30)
    assert Softmax(3).value(eta, np.array([0, 0]))[1] == pytest.approx(1800.0)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@every
def test_sums_by_factors_are_those_of_built_pulls(loss, form):
    """Products, sums and Gram matrices against pulls f ⊗ x written out."""
    rng = np.random.default_rng(3)
    eta, y = some(loss, 1)
    X = rng.standard_normal((ROWS, WIDTH))
    scaling = Scaling(1.0, rng.standard_normal(WIDTH), 0.5 + rng.random(WIDTH))
    ((_, block),) = Rows(form(X)).blocks(scaling)
    whole = np.column_stack([(X - scaling.centre) / scaling.scale, np.ones(ROWS)])
    terms = loss.terms(eta, y)
    pulls = np.einsum("cj,jk->jck", terms.slope, whole).reshape(ROWS, -1)
    several, lifted = SeveralBlock(block, CLASSES), LiftedBlock(block, terms.slope)
    model = rng.standard_normal(CLASSES * (WIDTH + 1))
    assert several.times(model) == pytest.approx(model.reshape(CLASSES, -1) @ whole.T)
    assert several.weighted_sum(terms.slope) == pytest.approx(pulls.sum(axis=0))
    bent = np.einsum("jce,jk,jl->ckel", full(terms.curvature), whole, whole).reshape(len(model), -1)
    assert several.gram(terms.curvature) == pytest.approx(bent, abs=1e-12)
    prices, weights = np.append(model, 0.3), rng.random(ROWS)
    rows = np.column_stack([pulls, np.ones(ROWS)])
    assert lifted.times(prices) == pytest.approx(rows @ prices)
    assert lifted.weighted_sum(weights) == pytest.approx(weights @ rows)
    assert lifted.gram(weights) == pytest.approx((rows.T * weights) @ rows)
    for metric in (rng.standard_normal((70, len(model))), rng.random(len(model))):
        moved = pulls * metric if metric.ndim == 1 else pulls @ metric.T
        assert mapped_gradients(block, terms.slope, metric) == pytest.approx(moved)
        assert gradient_squares(block, terms.slope, metric) == pytest.approx(np.square(moved).sum(axis=1))


def test_a_sketch_keeps_lengths_within_an_octave():
    """Against the metric itself: lengths of a thousand gradients, their mean square, and a metric of few rows as it is."""
    rng = np.random.default_rng(5)
    metric, gradients = rng.standard_normal((90, 100)) * rng.random((90, 1)), rng.standard_normal((1000, 100))
    lengths, sketched = (np.linalg.norm(gradients @ one.T, axis=1) for one in (metric, sketch(metric)))
    assert len(sketch(metric)) == 32
    assert np.abs(np.log2(sketched / lengths)).max() < 1.0
    assert np.mean(np.square(sketched)) == pytest.approx(np.mean(np.square(lengths)), rel=0.25)
    assert np.array_equal(sketch(metric[:9]), metric[:9])


def test_contrasts_span_what_softmax_can_tell():
    """Orthonormal rows, each of which adds up to 0 over classes."""
    basis = np.kron(contrasts(CLASSES), np.eye(WIDTH))
    assert basis @ basis.T == pytest.approx(np.eye((CLASSES - 1) * WIDTH))
    assert basis.reshape(-1, CLASSES, WIDTH).sum(axis=1) == pytest.approx(0.0)


def test_losses_by_name_and_refusals():
    """A learner comes back from its values; what is not taught over several outputs says so."""
    for loss in LOSSES:
        learner = Learner(loss, 2.0, "free")
        assert Learner.from_dict(learner.as_dict()) == learner
        assert EVERY_LOSS[loss.name](CLASSES) == loss
        with pytest.raises(LearnerError, match="dual is not known"):
            loss.conjugate(np.zeros(1), np.zeros(1))
    with pytest.raises(LearnerError, match="'huber' is not taught over 3 targets"):
        spread(Huber(), 3)
    with pytest.raises(LearnerError, match="at least 2"):
        Softmax(1)
