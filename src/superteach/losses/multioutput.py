"""Losses of several predictors at once: many classes, or several targets, over the same rows.

A model has C outputs, and a row C predictors η_c = x'θ_c. Arrays here end in (outputs, rows). The pull of a row at a model
is −∇ℓ(η) ⊗ x: C slopes and the row itself, which is all that is ever stored of it.

    softmax      ℓ = log Σ_c exp η_c − η_y,  −∇ℓ = e_y − p,  ∇²ℓ = diag(p) − p p'
    one by one   ℓ = Σ_c ℓ(η_c; y_c),        labels are +1 for the row's own class and −1 for all others, or targets

A curvature is given by factors: (1, C, rows) is a diagonal; (2, C, rows) holds a diagonal and p, with −p_c p_e beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from superteach.exceptions import LearnerError
from superteach.losses.scalar import LOSSES, Logistic, Loss, Squared, SquaredHinge, Terms
from superteach.types import Array

_LOWEST = -230.0
"""Shares below exp of this (1e-100) are 0: products of two numbers smaller than that are far slower to compute with."""


@dataclass(frozen=True)
class SquaredLabel(Squared):
    """ℓ = ½(η − y)² with labels of −1 and +1, as scikit-learn's RidgeClassifier has it."""

    name: ClassVar[str] = "squared_label"
    classifies: ClassVar[bool] = True


@dataclass(frozen=True)
class SeveralLoss(Loss):
    """A loss of `outputs` predictors; the paper's dual, which has one α for each row, knows none."""

    outputs: int = 2

    def __post_init__(self) -> None:
        if type(self.outputs) is not int or self.outputs < 2:
            raise LearnerError(f"{type(self).__name__} takes a number of outputs of at least 2, got {self.outputs!r}")

    def conjugate(self, alpha: Array, y: Array) -> Array:
        self._refuse()

    def minimiser(self, y: Array) -> Array:
        self._refuse()

    def domain(self, y: Array) -> tuple[Array, Array]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise LearnerError(f"the paper's dual is not known for {self.name!r}, a loss of {self.outputs} predictors")


@dataclass(frozen=True)
class Softmax(SeveralLoss):
    """ℓ = log Σ_c exp η_c − η_y, scikit-learn's LogisticRegression for three classes or more."""

    name: ClassVar[str] = "softmax"
    classifies: ClassVar[bool] = True
    shifts: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 0.5

    def value(self, eta: Array, y: Array) -> Array:
        return self._parts(eta, y)[0]

    def terms(self, eta: Array, y: Array) -> Terms:
        value, share, rest, own = self._parts(eta, y)
        slope = share.copy()
        np.put_along_axis(slope, own, -rest, axis=-2)
        np.put_along_axis(share, own, 1.0 - rest, axis=-2)
        missing = 1.0 - share
        np.put_along_axis(missing, own, rest, axis=-2)
        return Terms(value, slope, np.stack([share * missing, share]))

    def gradient(self, eta: Array, y: Array) -> Array:
        _, slope, rest, own = self._parts(eta, y)
        np.put_along_axis(slope, own, -rest, axis=-2)
        return slope

    def _parts(self, eta: Array, y: Array) -> tuple[Array, Array, Array, npt.NDArray[np.intp]]:
        """ℓ, the shares p of other classes, their sum 1 − p_y without cancellation, and where the own class is."""
        own = np.broadcast_to(y.astype(np.intp), (*eta.shape[:-2], 1, eta.shape[-1]))
        most = eta.max(axis=-2, keepdims=True)
        gap = most - np.take_along_axis(eta, own, axis=-2)
        below = np.maximum(eta - most, _LOWEST)
        share = np.exp(below) * (below > _LOWEST)
        np.put_along_axis(share, own, 0.0, axis=-2)
        others = share.sum(axis=-2, keepdims=True)
        mine = np.exp(-gap)
        whole = others + mine
        value = gap + np.where(gap == 0.0, np.log1p(others), np.log(whole))
        share /= whole
        return value[..., 0, :], share, others / whole, own


@dataclass(frozen=True)
class EachLoss(SeveralLoss):
    """Σ_c ℓ(η_c; y_c): one problem for each output, all over the same rows."""

    of: ClassVar[Loss]

    def value(self, eta: Array, y: Array) -> Array:
        return np.asarray(self.of.value(eta, self.targets(y)).sum(axis=-2))

    def terms(self, eta: Array, y: Array) -> Terms:
        value, slope, curvature = self.of.terms(eta, self.targets(y))
        return Terms(value.sum(axis=-2), slope, curvature[None])

    def targets(self, y: Array) -> Array:
        """Targets as outputs × rows."""
        return np.where(y == np.arange(self.outputs)[:, None], 1.0, -1.0) if self.classifies else y.T


@dataclass(frozen=True)
class SquaredLabels(EachLoss):
    """Each class against the rest by ½(η − y)², as RidgeClassifier has it."""

    name: ClassVar[str] = "squared_labels"
    classifies: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 1.0
    of: ClassVar[Loss] = Squared()


@dataclass(frozen=True)
class SquaredHinges(EachLoss):
    """Each class against the rest by (1 − yη)₊², as LinearSVC has it."""

    name: ClassVar[str] = "squared_hinges"
    classifies: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 2.0
    of: ClassVar[Loss] = SquaredHinge()


@dataclass(frozen=True)
class SquaredTargets(EachLoss):
    """Several targets by ½(η − y)², as Ridge and LinearRegression have it."""

    name: ClassVar[str] = "squared_targets"
    classifies: ClassVar[bool] = False
    most_curvature: ClassVar[float] = 1.0
    of: ClassVar[Loss] = Squared()


EVERY_LOSS: dict[str, type[Loss]] = LOSSES | {
    loss.name: loss for loss in (SquaredLabel, Softmax, SquaredLabels, SquaredHinges, SquaredTargets)
}
"""All losses that a learner may have, by name; `LOSSES` are those of one predictor that the paper's method knows too."""
_SPREAD: dict[type[Loss], type[SeveralLoss]] = {
    Logistic: Softmax,
    SquaredLabel: SquaredLabels,
    SquaredHinge: SquaredHinges,
    Squared: SquaredTargets,
}


def spread(loss: Loss, outputs: int) -> Loss:
    """The same loss over several outputs, as scikit-learn's estimator of it becomes; itself for one."""
    if outputs == loss.outputs:
        return loss
    kind = _SPREAD.get(type(loss))
    if kind is None:
        what = "classes" if loss.classifies else "targets"
        raise LearnerError(f"the loss {loss.name!r} is not taught over {outputs} {what}; give it one target")
    return kind(outputs)
