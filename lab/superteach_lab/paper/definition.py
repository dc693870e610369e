"""Definition 1 (super teaching): c_n = risk(S)/risk(pool) as the pool grows, for our two learners.

The setting of Ma et al. (AISTATS 2018): x ~ N(0, I_2), θ* = (1, 1)/√2, which also made the targets; Σ ℓ_j + (λ/2)‖θ‖²
with λ = 0.1 and no intercept. Their ridge loss (x'θ − y)² has no half, so Λ = λ/2 here; y has variance 0.1 around
x'θ*. Logistic labels are drawn with probability σ(x'θ*). One teacher holds the pool, as in the definition.

Two controls are learners of ours that no subset can teach better than the whole pool, by a monotone argument in one
column: with a = Σ x², noise-free ridge ends at aθ*/(a + Λ), so its risk Λ|θ*|/(a + Λ) falls with every row; and if
every label agrees with x, logistic regression's θ_S grows with every row, so a goal beyond the pool's model is
nearest from the whole pool. There c_n = 1 for every n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.engines.threads import Threads
from superteach.exceptions import BudgetError
from superteach.learner import Learner
from superteach.losses import Logistic, Squared
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab.experiments import exhaustive
from superteach_lab.fit import fitted

SIZES = (8, 12, 16, 64, 256, 1024, 4096)
SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0)
"""Lesson sizes that match tries, as shares of the pool; Definition 1 leaves the size to the teacher."""
CASES = {
    "ridge": "ridge regression",
    "logistic": "logistic regression",
    "ridge control": "control: ridge, one column, no noise",
    "logistic control": "control: logistic, one column, goal beyond the pool",
}
PUBLISHED = {("ridge", 16): 7.8e-3}
"""Ma et al., ridge, d = 2, n = 16: their median ratio over 10 pools by MINLP."""


def pool_of(name: str, rows: int, seed: int) -> tuple[Learner, Array, Array, Array]:
    """Learner, X, y and θ* of one random pool."""
    rng = np.random.default_rng([3, rows, seed])
    control, width = name.endswith("control"), 1 if name.endswith("control") else 2
    X = rng.standard_normal((rows, width))
    goal = np.full(width, 1.0 / np.sqrt(width))
    if name.startswith("ridge"):
        noise = 0.0 if control else np.sqrt(0.1)
        return Learner(Squared(), 0.05), X, X @ goal + noise * rng.standard_normal(rows), goal
    if not control:
        y = np.where(rng.random(rows) < expit(X @ goal), 1.0, -1.0)
        return Learner(Logistic(), 0.1), X, y, goal
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    learner = Learner(Logistic(), 0.1)
    # The largest model any subset has is the pool's; one more lies beyond all of them, by proof.
    return learner, X, y, fitted(X, y, learner) + 1.0


def exhaustive_up_to(name: str) -> int:
    """The most rows whose subsets are all looked at: 65,535 logistic fits a pool would take minutes in all."""
    return 16 if name.startswith("ridge") else 12


def trial(name: str, rows: int, seed: int) -> dict[str, Any]:
    """Pool's risk, the best risk match finds over its sizes, and the best of all subsets where there are few rows."""
    learner, X, y, goal = pool_of(name, rows, seed)
    found: dict[str, Any] = {"pool": None, "match": None, "size": None}
    for size in sorted({max(len(goal) + 1, round(share * rows)) for share in SHARES}):
        engine = Threads([Teacher("all", X, y)])
        try:
            lesson = teach(
                Federation(engine),
                learner,
                goal,
                method="match",
                budget=size,
                measure="coefficients",
                random_state=seed,
            )
        except BudgetError:  # these rows carry a single class
            continue
        finally:
            engine.close()
        found["pool"] = lesson.pool_risk
        if found["match"] is None or lesson.risk < found["match"]:
            found["match"], found["size"] = lesson.risk, lesson.size
    if rows <= exhaustive_up_to(name):
        kind = "logistic" if learner.loss.classifies else "ridge"
        risks = exhaustive.risks(kind, X, y, learner.ridge, goal, exhaustive.masks(rows, None))
        found["exhaustive"] = float(risks.min())
    return found


def batch(name: str, rows: int, trials: int) -> dict[str, Any]:
    """Ratios of all trials of one point of the figure."""
    found = [trial(name, rows, seed) for seed in range(trials)]
    kept = [one for one in found if one["match"] is not None]
    record: dict[str, Any] = {
        "trials": len(kept),
        "ratios": [one["match"] / one["pool"] for one in kept],
        "sizes": [one["size"] for one in kept],
    }
    if rows <= exhaustive_up_to(name):
        record["exhaustive"] = [one["exhaustive"] / one["pool"] for one in kept]
    return record
