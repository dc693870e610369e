"""Each loss against differences, brute-force suprema and plain orderings."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from scipy.optimize import minimize_scalar

from superteach.exceptions import SettingError
from superteach.losses import LOSSES, Huber, Logistic, Loss, Poisson

KINDS = sorted(LOSSES)
REACH = 500.0
"""Beyond every best α and every best z that the strategies below can lead to."""

kinds = some.sampled_from(KINDS)
predictors = some.floats(-5.0, 5.0)
thresholds = some.floats(0.0, 5.0)
each_kind = pytest.mark.parametrize("kind", KINDS)
many = settings(max_examples=120, deadline=None)


@some.composite
def losses_and_targets(draw) -> tuple[Loss, float]:
    """One loss and a target it accepts."""
    kind = draw(kinds)
    if LOSSES[kind].classifies:
        return LOSSES[kind](), draw(some.sampled_from([-1.0, 1.0]))
    if kind == "poisson":
        return Poisson(), float(draw(some.integers(0, 12)))
    loss = Huber(draw(some.floats(0.3, 3.0))) if kind == "huber" else LOSSES[kind]()
    return loss, draw(predictors)


cases = losses_and_targets()


def one(x: float) -> np.ndarray:
    return np.array([x], dtype=np.float64)


def plain_loss(loss: Loss, eta: float, y: float) -> float:
    """The textbook formula, in plain Python."""
    if loss.name == "logistic":
        return math.log1p(math.exp(-y * eta)) if y * eta > -30 else -y * eta
    if loss.name == "squared":
        return 0.5 * (eta - y) ** 2
    if loss.name == "squared_hinge":
        return max(0.0, 1.0 - y * eta) ** 2
    if loss.name == "huber":
        r = abs(eta - y)
        return 0.5 * r * r if r <= loss.delta else loss.delta * r - 0.5 * loss.delta**2
    if loss.name == "poisson":
        return math.exp(eta) - y * eta
    raise NotImplementedError(f"write down the textbook formula of {loss.name}")


def least(function, low: float, high: float) -> tuple[float, float]:
    """Place and value of the minimum of a convex function on an interval, ends included."""
    found = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-11})
    places = [found.x, low, high]
    values = [function(place) for place in places]
    best = int(np.argmin(values))
    return places[best], values[best]


def plain_domain(loss: Loss, y: float) -> tuple[float, float]:
    """Where the conjugate is finite, from the range of −ℓ'."""
    if loss.name == "logistic":
        return (0.0, 1.0) if y > 0 else (-1.0, 0.0)
    if loss.name == "squared_hinge":
        return (0.0, math.inf) if y > 0 else (-math.inf, 0.0)
    if loss.name == "huber":
        return -loss.delta, loss.delta
    if loss.name == "poisson":
        return -math.inf, y
    if loss.name == "squared":
        return -math.inf, math.inf
    raise NotImplementedError(f"write down where the conjugate of {loss.name} is finite")


def activation(loss: Loss, t: float, y: float, c: float) -> float:
    """How far past the threshold −ℓ*' at 0 lies (paper: a'p − c for logistic, |y + a'p| − c for squared)."""
    if loss.name == "logistic":
        return y * t - c
    if loss.name == "squared_hinge":
        return 1.0 + y * t - c
    best = y if loss.name != "poisson" else (math.log(y) if y > 0 else -math.inf)
    return abs(best + t) - c


def best_by_force(loss: Loss, t: float, y: float, c: float) -> tuple[float, float]:
    """argmax and max of tα − ℓ*(−α) − c|α|, each side of 0 searched on its own."""

    def negative(alpha: float) -> float:
        return float(loss.conjugate(one(alpha), one(y))[0]) + c * abs(alpha) - t * alpha

    low, high = plain_domain(loss, y)
    sides = [(max(low, -REACH), min(0.0, high)), (max(0.0, low), min(high, REACH))]
    found = [least(negative, *side) for side in sides if side[0] < side[1]]
    if low <= 0.0 <= high:
        found.append((0.0, negative(0.0)))
    place, value = min(found, key=lambda pair: pair[1])
    return place, -value


@many
@given(cases, predictors)
def test_value_is_the_textbook_formula(case, eta):
    """`value` and `terms.value` are the loss as a textbook has it."""
    loss, y = case
    wanted = plain_loss(loss, eta, y)
    assert loss.value(one(eta), one(y))[0] == pytest.approx(wanted, rel=1e-13, abs=1e-14)
    assert loss.terms(one(eta), one(y)).value[0] == pytest.approx(wanted, rel=1e-13, abs=1e-14)


@many
@given(cases, predictors)
def test_derivatives_are_those_of_the_value(case, eta):
    """Central differences of the value give the gradient, and of the gradient the curvature."""
    loss, y = case
    step = 1e-5
    ahead, behind = plain_loss(loss, eta + step, y), plain_loss(loss, eta - step, y)
    slope = loss.gradient(one(eta), one(y))[0]
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-5)
    if loss.name == "squared_hinge":
        assume(abs(1.0 - y * eta) > 1e-3)
    if loss.name == "huber":
        assume(abs(abs(eta - y) - loss.delta) > 1e-3)
    change = loss.gradient(one(eta + step), one(y)) - loss.gradient(one(eta - step), one(y))
    assert loss.curvature(one(eta), one(y))[0] == pytest.approx(change[0] / (2 * step), rel=1e-5, abs=1e-8)


@many
@given(cases, predictors, predictors)
def test_fenchel_young(case, eta, other):
    """ℓ(η) + ℓ*(−α) ≥ −αη for every α, with equality at α = −ℓ'(η)."""
    loss, y = case
    own = -loss.gradient(one(eta), one(y))
    touching = plain_loss(loss, eta, y) + loss.conjugate(own, one(y))[0] + own[0] * eta
    assert touching == pytest.approx(0.0, abs=1e-10 * (1.0 + abs(own[0] * eta)))
    alpha = -loss.gradient(one(other), one(y))
    apart = plain_loss(loss, eta, y) + loss.conjugate(alpha, one(y))[0] + alpha[0] * eta
    assert apart >= -1e-10 * (1.0 + abs(alpha[0] * eta))


@many
@given(cases, predictors)
def test_conjugate_is_the_supremum(case, slope_at):
    """ℓ*(−α) is what a numerical search for sup_z −αz − ℓ(z) finds."""
    loss, y = case
    alpha = -float(loss.gradient(one(slope_at), one(y))[0])
    _, value = least(lambda z: alpha * z + plain_loss(loss, z, y), -40.0, 40.0)
    assert loss.conjugate(one(alpha), one(y))[0] == pytest.approx(-value, rel=1e-8, abs=1e-8)


@many
@given(cases, some.floats(0.0, 1.0))
def test_domain_is_where_the_conjugate_is_finite(case, share):
    """The conjugate is finite on the whole domain, ends included, and infinite one float beyond it."""
    loss, y = case
    low, high = (float(end[0]) for end in loss.domain(one(y)))
    assert (low, high) == plain_domain(loss, y)
    inside = max(low, -1e6) + share * (min(high, 1e6) - max(low, -1e6))
    for alpha in (inside, max(low, -1e6), min(high, 1e6)):
        assert np.isfinite(loss.conjugate(one(alpha), one(y))).all()
    for end, way in ((low, -np.inf), (high, np.inf)):
        if math.isfinite(end):
            assert loss.conjugate(one(np.nextafter(end, way)), one(y))[0] == np.inf


@many
@given(cases, predictors, thresholds)
def test_best_dual_beats_every_other(case, t, c):
    """α(t) and h*(t) are the argmax and the max that brute force finds over the domain."""
    loss, y = case
    alpha, value = best_by_force(loss, t, y, c)
    terms = loss.dual_terms(one(t), one(y), one(c))
    best = loss.best_dual(one(t), one(y), one(c))
    assert best[0] == terms.slope[0]
    assert terms.value[0] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert best[0] == pytest.approx(alpha, rel=2e-5, abs=2e-5)
    assert loss.dual_value(one(t), one(y), one(c))[0] == pytest.approx(terms.value[0], rel=1e-14, abs=1e-300)
    reached = t * best[0] - loss.penalised_conjugate(best, one(y), one(c))[0]
    assert reached == pytest.approx(value, rel=1e-9, abs=1e-9)


@many
@given(cases, predictors, thresholds)
def test_dual_derivatives(case, t, c):
    """Central differences of h* give α(t), and of α(t) the curvature."""
    loss, y = case
    assume(abs(activation(loss, t, y, c)) > 1e-3)
    step = 1e-5
    values = [loss.dual_value(one(t + s), one(y), one(c))[0] for s in (step, -step)]
    terms = loss.dual_terms(one(t), one(y), one(c))
    assert terms.slope[0] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6, abs=1e-5)
    if loss.name == "huber":
        assume(abs(abs(terms.slope[0]) - loss.delta) > 1e-3)
        assume(abs(activation(loss, t, y, c) - loss.delta) > 1e-3)
    slopes = [loss.best_dual(one(t + s), one(y), one(c))[0] for s in (step, -step)]
    assert terms.curvature[0] == pytest.approx((slopes[0] - slopes[1]) / (2 * step), rel=1e-5, abs=1e-7)


@many
@given(cases, predictors, thresholds)
def test_a_row_below_its_threshold_is_exactly_off(case, t, c):
    """Where t does not reach the threshold α is exactly 0 and the curvature too."""
    loss, y = case
    rounding = 1e-12 * (abs(t) + abs(y) + abs(c))
    assume(loss.name != "logistic" and activation(loss, t, y, c) < -rounding)
    terms = loss.dual_terms(one(t), one(y), one(c))
    assert terms.slope[0] == 0.0
    assert terms.curvature[0] == 0.0


@many
@given(cases, some.floats(-1e3, 1e3))
def test_infinite_thresholds_switch_rows_off(case, t):
    """With c = ∞ a row has α = 0, finite values and no warning on the way."""
    loss, y = case
    given_ = one(t), one(y), one(np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        terms = loss.dual_terms(*given_)
        value = loss.dual_value(*given_)
        penalised = loss.penalised_conjugate(loss.best_dual(*given_), one(y), one(np.inf))
        ranks = loss.rank(*given_), loss.distance(*given_)
    assert terms.slope[0] == 0.0
    assert terms.curvature[0] == 0.0
    assert value[0] == terms.value[0]
    floor, _ = best_by_force(loss, 0.0, y, 1e3)
    assert floor == 0.0
    least_loss = -loss.conjugate(one(0.0), one(y))[0]
    assert terms.value[0] == pytest.approx(least_loss, abs=1e-12)
    assert penalised[0] == pytest.approx(-least_loss, abs=1e-12)
    assert ranks[0][0] == -np.inf
    assert ranks[1][0] == -np.inf


@each_kind
@pytest.mark.parametrize("seed", range(5))
def test_rank_sorts_by_alpha_then_by_distance(kind, seed):
    """The order by rank is that of |α|, and among rows with α = 0 that of their distance to activation."""
    rng = np.random.default_rng(seed)
    loss, size = LOSSES[kind](), 400
    y = rng.choice([-1.0, 1.0], size) if loss.classifies else rng.poisson(3.0, size).astype(float)
    t, c = rng.normal(0.0, 2.0, size), rng.exponential(2.0, size)
    absolute = np.array([abs(best_by_force(loss, *row)[0]) for row in zip(t, y, c, strict=True)])
    away = np.array([activation(loss, *row) for row in zip(t, y, c, strict=True)])
    order = np.argsort(-loss.rank(t, y, c), kind="stable")
    assert np.all(np.diff(absolute[order]) <= 2e-5 * (1.0 + absolute[order][:-1]))
    off = order[away[order] < -1e-9]
    assert kind == "logistic" or 50 < len(off) < size
    assert np.all(np.diff(away[off]) <= 1e-12)
    assert set(order[len(order) - len(off) :]) == set(off) or kind == "logistic"


@many
@given(some.lists(some.floats(-3000.0, 3000.0), min_size=2, max_size=30, unique=True), thresholds)
def test_logistic_ranks_survive_underflow(t, c):
    """Rows whose logistic α is 0 or 1 in float64 still sort by a'p − c."""
    margins = np.array(t)
    y = np.where(np.arange(len(margins)) % 2 == 0, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranks = Logistic().rank(y * margins, y, np.full(len(t), c))
        terms = Logistic().dual_terms(y * margins, y, np.full(len(t), c))
    assert all(np.isfinite(part).all() for part in terms)
    assert np.array_equal(np.argsort(ranks, kind="stable"), np.argsort(margins - c, kind="stable"))
    # Margins that differ in their last bit have slopes that may differ in theirs, either way.
    assert np.all(np.diff(np.abs(terms.slope)[np.argsort(ranks)]) >= -4e-16)


@pytest.mark.parametrize("delta", [0.0, -1.0, math.inf, math.nan])
def test_huber_needs_a_positive_scale(delta):
    """A scale that is not a positive number is refused by name."""
    with pytest.raises(SettingError, match="delta"):
        Huber(delta)


@each_kind
def test_settings_build_the_loss_again(kind):
    """Name and parameters are enough to build an equal loss."""
    loss = Huber(0.7) if kind == "huber" else LOSSES[kind]()
    told = loss.settings()
    assert LOSSES[told.pop("name")](**told) == loss
