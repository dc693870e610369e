"""The paper's pattern: a few per cent of the rows teach the goal far better than the whole pool does."""

from __future__ import annotations

import numpy as np

import superteach as st
from superteach.goals import PerturbedFit
from superteach.losses import Logistic

ROWS, FEATURES, CLUSTERS, SEEDS, TEACHERS = 5000, 10, 4, 10, 5


def clustered(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four Gaussian clusters of unit variance, centres ~ N(0, 0.5² I), labels alternating over clusters."""
    rng = np.random.default_rng(seed)
    centres = 0.5 * rng.standard_normal((CLUSTERS, FEATURES))
    cluster = rng.permutation(np.arange(ROWS) % CLUSTERS)
    X = centres[cluster] + rng.standard_normal((ROWS, FEATURES))
    return X, np.where(cluster % 2 == 0, 1.0, -1.0)


def test_few_rows_beat_the_pool(federation_of):
    """Ten pools: less than half the pool's risk, nine labels in ten alike, a tenth of the rows or less."""
    risks, pool_risks, consistencies, shares = [], [], [], []
    for seed in range(SEEDS):
        X, y = clustered(seed)
        lesson = st.teach(
            federation_of(X, y, TEACHERS),
            st.Learner(Logistic(), ridge=1.0),
            PerturbedFit(seed),
            budget="best",
            method="dual",
            sparsity=0.1,
            goal_weight=1000.0,
        )
        assert lesson.converged, lesson.reason
        np.testing.assert_allclose(lesson.risk, np.linalg.norm(lesson.model - lesson.goal), rtol=1e-12)
        same = (X @ lesson.model > 0.0) == (X @ lesson.goal > 0.0)
        assert lesson.agreement == same.mean()
        risks.append(lesson.risk)
        pool_risks.append(lesson.pool_risk)
        consistencies.append(lesson.agreement)
        shares.append(lesson.size / ROWS)
    assert np.mean(risks) < 0.5 * np.mean(pool_risks)
    assert np.mean(consistencies) >= 0.9
    assert np.median(shares) <= 0.10
