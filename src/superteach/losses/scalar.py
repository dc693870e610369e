"""The losses a learner may have, each written once as a function of the linear predictor η = x'θ.

A loss ℓ(η; y) is convex in η. Its dual variable α is signed: the learner's optimum has
Λθ = Σ_j α_j x_j with α_j = −ℓ'(η_j; y_j), so the paper's α of a margin loss is y_j·α_j here, and no
sign appears outside this file. Labels of margin losses are −1 and +1.

The adaptive l1 term turns ℓ*(−α) into h(α) = ℓ*(−α) + c|α|. Its conjugate needs no solver:

    h*(t) = min { ℓ(z) : |z + t| ≤ c },   reached at z = clip(argmin ℓ, −t−c, −t+c),   α(t) = −ℓ'(z)

because the conjugate of a sum is an infimal convolution and ℓ is convex in one variable. So the best
dual of every loss below, and of any loss added later, is the same two lines.

Losses and their derivatives take arrays of NumPy or of torch (teachers on a device); all else takes NumPy's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from superteach.exceptions import SettingError
from superteach.losses.arrays import namespace
from superteach.types import Array, Json, is_number


class Terms(NamedTuple):
    """Value, first and second derivative of a function of one number, at many numbers."""

    value: Array
    slope: Array
    curvature: Array


class Loss(ABC):
    """A convex loss ℓ(η; y) of the linear predictor."""

    name: ClassVar[str]
    classifies: ClassVar[bool]
    """True for margin losses, with labels of −1 and +1."""
    most_curvature: ClassVar[float] = np.inf
    """The largest ℓ'' there is: how fast a row's pull can change with the model."""
    outputs: int = 1
    """Predictors that it looks at: more than one for many classes or several targets (see `several`)."""
    shifts: ClassVar[bool] = False
    """Whether a number added to all predictors of a row changes nothing, as with softmax."""

    @abstractmethod
    def terms(self, eta: Array, y: Array) -> Terms:
        """ℓ, ℓ' and ℓ'' at η, computed together because they share their costly parts."""

    @abstractmethod
    def conjugate(self, alpha: Array, y: Array) -> Array:
        """ℓ*(−α) = sup_z { −αz − ℓ(z) }; infinite outside the domain."""

    def minimiser(self, y: Array) -> Array:
        """The η nearest to 0 that minimises ℓ, infinite where no finite one does; the label or target itself by default."""
        return y

    def domain(self, y: Array) -> tuple[Array, Array]:
        """Least and greatest α at which ℓ*(−α) is finite, −ℓ' at ±∞ (the paper's projection Π clips to it)."""
        far = np.full(np.shape(y), np.inf)
        return -self.gradient(far, y) + 0.0, -self.gradient(-far, y) + 0.0  # + 0.0 makes −0 equal to 0

    def value(self, eta: Array, y: Array) -> Array:
        """ℓ(η; y); a loss that is asked for often computes it without the derivatives."""
        return self.terms(eta, y).value

    def gradient(self, eta: Array, y: Array) -> Array:
        """ℓ'(η; y)."""
        return self.terms(eta, y).slope

    def curvature(self, eta: Array, y: Array) -> Array:
        """ℓ''(η; y), where it exists; one of the one-sided values elsewhere."""
        return self.terms(eta, y).curvature

    def most_curved(self, y: Array) -> Array | None:
        """The η from which ℓ'' falls off to both sides, where there is one; ±∞ where ℓ'' is monotone."""
        return None

    def curvature_range(self, low: Array, high: Array, y: Array) -> tuple[Array, Array]:
        """Bounds of ℓ'' for η between `low` and `high`."""
        peak = self.most_curved(y)
        if peak is None:
            return np.zeros_like(low), np.full_like(low, self.most_curvature)
        ends = self.curvature(low, y), self.curvature(high, y)
        return np.minimum(*ends), np.maximum(np.maximum(*ends), self.curvature(np.clip(peak, low, high), y))

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...] | None:
        """Every η at which ℓ'' equals a number or jumps: where else than at its ends can ℓ' + an affine function be largest?

        NaN: nowhere. None: not known, and bounds of pulls (`selection.majorant`) fall back on `most_curvature`.
        """
        return None

    def dual_terms(self, t: Array, y: Array, threshold: Array) -> Terms:
        """h*(t), its slope α(t) and its curvature, with c = threshold (see the head of this file)."""
        centre = self.minimiser(y)
        z = _nearest(centre, t, threshold)
        value, slope, curvature = self.terms(z, y)
        # Where z rests on the minimiser the row is off: α = 0, whatever t does nearby.
        on = z != centre
        return Terms(value, np.where(on, -slope, 0.0), curvature * on)

    def dual_value(self, t: Array, y: Array, threshold: Array) -> Array:
        """h*(t) alone, for line searches."""
        return self.value(_nearest(self.minimiser(y), t, threshold), y)

    def best_dual(self, t: Array, y: Array, threshold: Array) -> Array:
        """α(t) = argmax_α { tα − ℓ*(−α) − c|α| }."""
        return self.dual_terms(t, y, threshold).slope

    def penalised_conjugate(self, alpha: Array, y: Array, threshold: Array) -> Array:
        """h(α) = ℓ*(−α) + c|α|, with 0·∞ = 0 for rows that are out."""
        absolute = np.abs(alpha)
        with np.errstate(invalid="ignore"):
            penalty = np.where(absolute == 0.0, 0.0, threshold * absolute)
        return self.conjugate(alpha, y) + penalty

    def distance(self, t: Array, y: Array, threshold: Array) -> Array:
        """Say how far past activation a row is: positive where α(t) ≠ 0, else minus what it lacks."""
        with np.errstate(invalid="ignore"):
            distance = np.abs(self.minimiser(y) + t) - threshold
        return np.where(np.isinf(threshold), -np.inf, distance)

    def rank(self, t: Array, y: Array, threshold: Array) -> Array:
        """Score rows such that they sort by |α(t)|, and rows with equal |α| by their distance.

        Where |α| is one increasing function of the distance for all rows, as for every loss but
        Poisson's, the distance itself is that score, and it never underflows.
        """
        return self.distance(t, y, threshold)

    def _by_dual(self, t: Array, y: Array, threshold: Array) -> Array:
        """|α(t)| itself, and the distance where it is 0."""
        absolute = np.abs(self.best_dual(t, y, threshold))
        return np.where(absolute > 0.0, absolute, np.minimum(self.distance(t, y, threshold), 0.0))

    def of_rows(self, rows: object) -> Loss:
        """The loss of some rows: `rows` is any index of NumPy's."""
        return self

    def settings(self) -> Json:
        """Name and parameters, enough to build the loss again."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ = log(1 + exp(−yη)), the paper's logistic regression."""

    name: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 0.25

    def terms(self, eta: Array, y: Array) -> Terms:
        value, wrong, curvature = _of_margin(y * eta)
        return Terms(value, -y * wrong, curvature)

    def value(self, eta: Array, y: Array) -> Array:
        margin = y * eta
        return _softplus(margin, _tail(margin))

    def dual_terms(self, t: Array, y: Array, threshold: Array) -> Terms:
        # The minimiser lies at infinity, so z is always the end of its interval on that side.
        value, wrong, curvature = _of_margin(threshold - y * t)
        return Terms(value, y * wrong, curvature)

    def dual_value(self, t: Array, y: Array, threshold: Array) -> Array:
        margin = threshold - y * t
        return _softplus(margin, _tail(margin))

    def most_curved(self, y: Array) -> Array:
        return np.zeros_like(y)

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...]:
        # σ(m)σ(−m) = κ at m = ±log((1 + √(1 − 4κ))²/4κ).
        share = np.clip(curvature, 1e-300, 0.25)
        root = np.sqrt(1.0 - 4.0 * share)
        margin = 2.0 * np.log1p(root) - np.log(4.0 * share)
        inside = (curvature > 0.0) & (curvature <= 0.25)
        return tuple(np.where(inside, side * margin, np.nan) for side in (1.0, -1.0))

    def conjugate(self, alpha: Array, y: Array) -> Array:
        share = alpha * y
        return _entropy(share) + _entropy(1.0 - share)

    def minimiser(self, y: Array) -> Array:
        return y * np.inf

    def distance(self, t: Array, y: Array, threshold: Array) -> Array:
        return y * t - threshold


@dataclass(frozen=True)
class Squared(Loss):
    """ℓ = ½(η − y)², the paper's ridge regression."""

    name: ClassVar[str] = "squared"
    classifies: ClassVar[bool] = False
    most_curvature: ClassVar[float] = 1.0

    def terms(self, eta: Array, y: Array) -> Terms:
        residual = eta - y
        return Terms(0.5 * residual * residual, residual, namespace(eta).ones_like(residual))

    def value(self, eta: Array, y: Array) -> Array:
        residual = eta - y
        return 0.5 * residual * residual

    def most_curved(self, y: Array) -> Array:
        return y

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...]:
        return ()

    def conjugate(self, alpha: Array, y: Array) -> Array:
        return 0.5 * alpha * alpha - alpha * y


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """ℓ = (1 − yη)₊², without a half, as scikit-learn's LinearSVC has it."""

    name: ClassVar[str] = "squared_hinge"
    classifies: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 2.0

    def terms(self, eta: Array, y: Array) -> Terms:
        xp = namespace(eta)
        short = xp.clip(1.0 - y * eta, 0.0, None)
        return Terms(short * short, -2.0 * y * short, 2.0 * (short > 0.0) * xp.ones_like(short))

    def value(self, eta: Array, y: Array) -> Array:
        short: Array = namespace(eta).clip(1.0 - y * eta, 0.0, None)
        return short * short

    def most_curved(self, y: Array) -> Array:
        return -y * np.inf

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...]:
        return (y,)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        share = alpha * y
        return np.where(share >= 0.0, 0.25 * share * share - share, np.inf)

    def distance(self, t: Array, y: Array, threshold: Array) -> Array:
        return 1.0 + y * t - threshold


@dataclass(frozen=True)
class Huber(Loss):
    """ℓ = ½r² for |r| ≤ delta, else delta|r| − ½delta², with r = η − y and a fixed scale."""

    delta: float = 1.35

    name: ClassVar[str] = "huber"
    classifies: ClassVar[bool] = False
    most_curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.delta) and np.isfinite(self.delta) and self.delta > 0):
            raise SettingError(f"Huber's delta must be a positive number, got {self.delta!r}")

    def terms(self, eta: Array, y: Array) -> Terms:
        xp, residual = namespace(eta), eta - y
        slope = xp.clip(residual, -self.delta, self.delta)
        inner = xp.abs(residual) <= self.delta
        return Terms(slope * (residual - 0.5 * slope), slope, inner * xp.ones_like(residual))

    def most_curved(self, y: Array) -> Array:
        return y

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...]:
        return y - self.delta, y + self.delta

    def conjugate(self, alpha: Array, y: Array) -> Array:
        return np.where(np.abs(alpha) <= self.delta, 0.5 * alpha * alpha - alpha * y, np.inf)


@dataclass(frozen=True)
class Poisson(Loss):
    """ℓ = exp(η) − yη with counts y ≥ 0, as scikit-learn's PoissonRegressor has it."""

    name: ClassVar[str] = "poisson"
    classifies: ClassVar[bool] = False

    def terms(self, eta: Array, y: Array) -> Terms:
        xp = namespace(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = xp.exp(eta)
            value = mean - xp.where(y == 0.0, 0.0, y * eta)
        return Terms(value, mean - y, mean)

    def value(self, eta: Array, y: Array) -> Array:
        xp = namespace(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            value: Array = xp.exp(eta) - xp.where(y == 0.0, 0.0, y * eta)
        return value

    def most_curved(self, y: Array) -> Array:
        return np.full_like(y, np.inf)

    def turns(self, curvature: Array, y: Array) -> tuple[Array, ...]:
        return (np.where(curvature > 0.0, np.log(np.where(curvature > 0.0, curvature, 1.0)), np.nan),)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        rest = y - alpha
        return _entropy(rest) - rest

    def minimiser(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(y)

    def rank(self, t: Array, y: Array, threshold: Array) -> Array:
        return self._by_dual(t, y, threshold)


class Weighted(Loss):
    """w ℓ(η; y): the loss of rows that count as w > 0 rows each; its conjugate is w ℓ*(−α/w)."""

    def __init__(self, loss: Loss, weights: Array) -> None:
        self._loss, self._weights = loss, weights
        self.name, self.classifies = loss.name, loss.classifies  # type: ignore[misc]
        self.most_curvature = loss.most_curvature * float(weights.max(initial=0.0))  # type: ignore[misc]

    def terms(self, eta: Array, y: Array) -> Terms:
        return Terms(*(self._weights * term for term in self._loss.terms(eta, y)))

    def value(self, eta: Array, y: Array) -> Array:
        return self._weights * self._loss.value(eta, y)

    def dual_terms(self, t: Array, y: Array, threshold: Array) -> Terms:
        # The same z minimises ℓ and w ℓ, so the weight is a factor here too.
        return Terms(*(self._weights * term for term in self._loss.dual_terms(t, y, threshold)))

    def curvature_range(self, low: Array, high: Array, y: Array) -> tuple[Array, Array]:
        least, most = self._loss.curvature_range(low, high, y)
        return self._weights * least, self._weights * most

    def of_rows(self, rows: Any) -> Weighted:
        return Weighted(self._loss, self._weights[rows])

    def conjugate(self, alpha: Array, y: Array) -> Array:
        return self._weights * self._loss.conjugate(alpha / self._weights, y)

    def minimiser(self, y: Array) -> Array:
        return self._loss.minimiser(y)

    def distance(self, t: Array, y: Array, threshold: Array) -> Array:
        return self._loss.distance(t, y, threshold)

    def rank(self, t: Array, y: Array, threshold: Array) -> Array:
        return self._by_dual(t, y, threshold)

    def settings(self) -> Json:
        return self._loss.settings()


LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (Logistic, Squared, SquaredHinge, Huber, Poisson)}


def _of_margin(margin: Array) -> tuple[Array, Array, Array]:
    """log(1 + exp(−m)), σ(−m) and σ(m)σ(−m)."""
    small = _tail(margin)
    inverse = 1.0 / (1.0 + small)
    both = small * inverse
    wrong = namespace(margin).where(margin >= 0.0, both, inverse)
    return _softplus(margin, small), wrong, both * inverse


_SMALLEST = np.exp(-700.0)


def _softplus(margin: Array, tail: Array) -> Array:
    """log(1 + exp(−m)) from exp(−|m|), which log1p takes twice as long for where its powers underflow."""
    xp = namespace(margin)
    value: Array = xp.log1p(xp.clip(tail, 1e-100, None))
    value -= xp.clip(margin, None, 0.0)
    return value


def _tail(margin: Array) -> Array:
    """exp(−|m|), and 0 beyond 700: the numbers between there and 0 are far slower to compute with."""
    xp = namespace(margin)
    size: Array = xp.abs(margin)
    xp.clip(size, None, 700.0, out=size)
    xp.exp(xp.negative(size, out=size), out=size)
    size -= _SMALLEST
    return size


def _nearest(centre: Array, t: Array, threshold: Array) -> Array:
    """Find the z within |z + t| ≤ c that is nearest to the loss's minimiser."""
    z = np.maximum(centre, -t - threshold)
    return np.minimum(z, threshold - t, out=z)


def _entropy(x: Array) -> Array:
    """x log x with 0 log 0 = 0, infinite for x < 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0.0, x * np.log(x), np.where(x == 0.0, 0.0, np.inf))
