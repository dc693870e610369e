"""Lower bounds against every lesson of tiny pools: is any lesson nearer than a bound allows?

Each pool is drawn by its own seed: a loss, rows, columns, a penalty, an intercept or none, a measure, a goal and a size.
Every subset of that size is fitted by Newton's method from textbook formulas. The bound is that of
`superteach.selection.certificate`, and `superteach.checker` looks at it again by other means.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from superteach import checker
from superteach.losses import Huber, Loss
from superteach.losses.multioutput import EVERY_LOSS, SeveralLoss
from superteach.selection import certificate
from superteach.selection.certificate import Ball, Envelope
from superteach.selection.majorant import Products, majorant
from superteach.types import Array
from superteach_lab.experiments.exhaustive import masks

NAMES = ("logistic", "squared", "squared_hinge", "huber", "poisson", "softmax", "squared_targets", "squared_hinges")
SINGLE = {"squared_targets": "squared", "squared_hinges": "squared_hinge", "squared_labels": "squared"}
"""The loss of each output by itself."""


class Pool(NamedTuple):
    """Rows with their learner, a goal and a size."""

    name: str
    X: Array
    targets: Array
    """Outputs × rows: targets, or labels of −1 and 1; for softmax 1 where the class is the own one."""
    y: Array
    """As the product's losses take them."""
    penalty: Array
    goal: Array
    """Outputs × coefficients."""
    size: int
    by_prediction: bool

    @property
    def loss(self) -> Loss:
        """The product's loss."""
        kind = EVERY_LOSS[self.name]
        return kind(len(self.goal)) if issubclass(kind, SeveralLoss) else kind()

    @property
    def measure(self) -> Array:
        """A of one output."""
        width = self.X.shape[1]
        return np.linalg.qr(self.X / np.sqrt(len(self.X)))[1] if self.by_prediction else np.eye(width)


def draw(seed: int) -> Pool:
    """A pool of six to nine rows."""
    rng = np.random.default_rng([seed, 30])
    name = NAMES[seed % len(NAMES)]
    outputs = 3 if issubclass(EVERY_LOSS[name], SeveralLoss) else 1
    rows, width = int(rng.integers(6, 10)), int(rng.integers(1, 4 if outputs == 1 else 3))
    X = rng.standard_normal((rows, width)) * np.exp(rng.normal(0.0, 0.7, width))
    penalty = np.full(width, float(np.exp(rng.uniform(-2.0, 1.5))))
    if rng.random() < 0.5:
        X, penalty = np.column_stack([X, np.ones(rows)]), np.append(penalty, penalty[0])
    truth = rng.standard_normal((outputs, X.shape[1]))
    score = truth @ X.T + 0.5 * rng.standard_normal((outputs, rows))
    if name in ("softmax", "squared_hinges"):
        y = score.argmax(axis=0).astype(float)
        targets = np.where(y == np.arange(outputs)[:, None], 1.0, 0.0 if name == "softmax" else -1.0)
    elif name in ("logistic", "squared_hinge"):
        targets = np.where(score + rng.standard_normal(score.shape) > 0.0, 1.0, -1.0)
        y = targets[0]
    elif name == "poisson":
        targets = rng.poisson(np.exp(np.clip(score, -3.0, 2.0))).astype(float)
        y = targets[0]
    else:
        targets, y = score, score.T if outputs > 1 else score[0]
    goal = rng.standard_normal(truth.shape) * rng.uniform(0.5, 4.0)
    if name == "softmax":
        goal -= goal.mean(axis=0)
    return Pool(name, X, targets, y, penalty, goal, int(rng.integers(2, rows)), bool(rng.random() < 0.5))


def slope(name: str, t: Array, y: Array) -> tuple[Array, Array]:
    """ℓ' and ℓ'' of a loss of one predictor."""
    first: Any = t - y
    second: Any = np.ones_like(t)
    if name == "logistic":
        wrong = 1.0 / (1.0 + np.exp(np.clip(y * t, -500.0, 500.0)))
        first, second = -y * wrong, wrong * (1.0 - wrong)
    if name == "squared_hinge":
        first, second = -2.0 * y * np.maximum(1.0 - y * t, 0.0), 2.0 * (y * t < 1.0)
    if name == "huber":
        first, second = np.clip(first, -Huber().delta, Huber().delta), 1.0 * (np.abs(first) <= Huber().delta)
    if name == "poisson":
        first, second = np.exp(np.minimum(t, 50.0)) - y, np.exp(np.minimum(t, 50.0))
    return np.asarray(first), np.asarray(second)


def models(pool: Pool, subsets: Array) -> Array:
    """θ_S of every subset, subsets × outputs × coefficients; NaN where Newton's method did not end."""
    X, (outputs, width) = pool.X, pool.goal.shape
    theta = np.zeros((len(subsets), outputs, width))

    def parts(theta: Array) -> tuple[Array, Array]:
        t = np.einsum("scd,nd->scn", theta, X)
        if pool.name == "softmax":
            p = np.exp(t - t.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            first = p - pool.targets
            second = np.einsum("scn,ce->scen", p, np.eye(outputs)) - np.einsum("scn,sen->scen", p, p)
        else:
            first, own = slope(SINGLE.get(pool.name, pool.name), t, pool.targets)
            second = np.einsum("scn,ce->scen", own, np.eye(outputs))
        gradient = np.einsum("sn,scn,nd->scd", subsets, first, X) + pool.penalty * theta
        hessian = np.einsum("sn,scen,nd,nf->scdef", subsets, second, X, X, optimize=True)
        whole = hessian.reshape(len(subsets), outputs * width, outputs * width)
        return gradient.reshape(len(subsets), -1), whole + np.diag(np.tile(pool.penalty, outputs))

    gradient, hessian = parts(theta)
    for _ in range(100):
        size = np.linalg.norm(gradient, axis=1)
        if size.max() < 1e-11:
            break
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0].reshape(theta.shape)
        length = np.ones(len(subsets))
        for _ in range(25):
            tried = theta - length[:, None, None] * step
            after = np.linalg.norm(parts(tried)[0], axis=1)
            worse = (after > (1.0 - 1e-4 * length) * size) & (size > 1e-11)
            if not worse.any():
                break
            length[worse] *= 0.5
        theta = theta - length[:, None, None] * step
        gradient, hessian = parts(theta)
    theta[np.linalg.norm(gradient, axis=1) > 1e-8] = np.nan
    return theta


def separating(pool: Pool, theta: Array) -> Array | None:
    """The direction that proves most at one model, by a linear programme; None: no direction proves anything."""
    (outputs, width), rows = pool.goal.shape, len(pool.X)
    eta = theta @ pool.X.T
    if pool.name == "softmax":
        p = np.exp(eta - eta.max(axis=0))
        first = p / p.sum(axis=0) - pool.targets
    else:
        first = slope(SINGLE.get(pool.name, pool.name), eta, pool.targets)[0]
    pulls = -np.einsum("cn,nd->ncd", first, pool.X).reshape(rows, -1)
    cost = np.concatenate([-(pool.penalty * theta).ravel(), [-pool.size], np.ones(rows)])
    reach = np.hstack([pulls, np.ones((rows, 1)), -np.eye(rows)])
    limits = [(-1.0, 1.0)] * (outputs * width) + [(None, None)] + [(0.0, None)] * rows
    found = linprog(cost, A_ub=reach, b_ub=np.zeros(rows), bounds=limits)
    return found.x[: outputs * width + 1] if found.status == 0 and found.fun < -1e-7 else None


class Verdict(NamedTuple):
    """One pool: the distance of its nearest lesson, what is proved, and what the checker says of that."""

    nearest: float
    proved: float
    margin: float
    beyond: float
    """The checker's margin at a radius that some lesson lies within: must not be above 0."""


def judge(pool: Pool) -> Verdict | None:
    """Prove a bound and fit every subset; None where no direction proves the goal out of reach."""
    direction = separating(pool, pool.goal)
    if direction is None:
        return None
    outputs, width = pool.goal.shape
    loss, measure = pool.loss, pool.measure
    reach: Array = np.asarray(np.linalg.inv(measure).T, dtype=np.float64)
    ball = Ball(pool.goal.ravel(), np.tile(pool.penalty, outputs), reach, pool.size)
    length, none = np.linalg.norm(pool.X @ reach.T, axis=1), np.zeros(len(pool.X))

    def ask(direction: Array, radii: Array) -> list[Envelope]:
        at, along = (one.reshape(outputs, -1) @ pool.X.T for one in (ball.centre, direction[:-1]))
        at, along = (at[0], along[0]) if outputs == 1 else (at, along)
        found = []
        for radius in radii:
            one = majorant(loss, Products(at, radius * length, along, none, none), pool.y, float(direction[-1]))
            tilt, pull = ((np.atleast_2d(part) @ pool.X).ravel() for part in (one.tilt, one.pull))
            found.append(Envelope(float(one.height.sum()), tilt, pull, float(one.on.sum())))
        return found

    far = float(np.linalg.norm(pool.goal @ measure.T))
    known = certificate.radius(ball, direction, ask, 0.0, 2.0 * far)
    better, proved = certificate.strengthen(ball, direction, ask, np.eye(outputs * width), known, 2.0 * far)
    away = models(pool, masks(len(pool.X), pool.size)) - pool.goal
    nearest = float(np.nanmin(np.linalg.norm(away @ measure.T, axis=(1, 2))))
    own = SINGLE.get(pool.name, pool.name)
    y = pool.y if pool.name == "softmax" else pool.targets

    def checked(radius: float) -> float:
        given = None if pool.by_prediction else measure
        return checker.margin(pool.X, y, own, pool.penalty, pool.goal, pool.size, better, radius, given)

    return Verdict(nearest, proved, checked((1.0 - 1e-3) * proved), checked(1.0001 * nearest))
