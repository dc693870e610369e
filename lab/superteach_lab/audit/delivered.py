"""The model that is fitted on the chosen rows and handed over, beside what left in the lesson: was this row there?

No privacy mode covers the model. The attacker knows every other row, sees the transcript and the model, and learns from many
lessons with and without the row how both differ: by the model's distance from the goal, along the row and across, and
by the transcript's own evidence.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from superteach.privacy.accounting import Mode
from superteach.protocol.queries import Private
from superteach.types import Array
from superteach_lab.audit.empirical import auc_of, exact
from superteach_lab.audit.subject import HONEST, Door, Finding, Memory, Row, Subject, fit, listen

MODELS = {
    "a usual row, from the delivered model": "a usual row against the goal",
    "an extreme row, from the delivered model": "as long as a row can count",
}
"""Attacks, and the crafted row that each looks for."""
MOST_AUC = 0.6
"""AUC asked for: with μ = 0.239 (ε = 1, δ = 1e-6) the messages alone allow 0.567."""


def look(subject: Subject, row: Row, mode: Mode, runs: int, memory: Memory, door: Door = HONEST) -> Array:
    """Teach lessons without the row and with it, fit the model each delivers, and return what an attacker looks at.

    2 × runs × features. Other owners choose once for the same share: the attacker knows their rows and their choice.
    """
    pools = subject, subject.with_row(row)
    known = [door.teacher("owner", *pool.parts[subject.place]) for pool in pools]
    loss, column, goal = subject.about
    x = np.append(row[0], column) if column else row[0]
    pull = -float(loss.terms(np.array([x @ goal]), np.array([row[1]])).slope[0]) * x
    pull = pull / max(float(np.linalg.norm(pull)), 1e-300)
    found = np.zeros((2, runs, 3 + len(goal)))
    for run in range(runs):
        for there, pool in enumerate(pools):
            transcript = listen(pool, mode, door, memory=memory)
            evidence = 0.0
            for one in transcript.of(Private):
                if one.position == subject.place and isinstance(one.query, Private):
                    without, within = (exact(teacher, one.query) for teacher in known)
                    change = within - without
                    away = one.sealed.values - without - 0.5 * change
                    evidence += float(away @ change) / mode.deviation(one.query.release) ** 2
            missed = fit(pool, transcript.chosen) - goal
            found[there, run] = [evidence, np.log(np.linalg.norm(missed) + 1e-300), missed @ pull, *missed]
    return found


def replayed(subject: Subject, mode: Mode, door: Door = HONEST) -> bool:
    """Tell whether whoever knows all rows and the seed can compute the model again: then one row more is seen at once."""
    first, second = (fit(subject, listen(subject, mode, door).chosen) for _ in range(2))
    return bool(np.array_equal(first, second))


def judge(found: Array, mode: Mode, attack: str, again: bool, seed: int = 0) -> Finding:
    """Guess by cross-validation which lessons had the row, with a linear and a non-linear classifier; the better counts."""
    runs, aucs = found.shape[1], []
    features, labels = found.reshape(2 * runs, -1), np.repeat([0, 1], runs)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    linear = make_pipeline(
        QuantileTransformer(n_quantiles=min(100, runs), output_distribution="normal"), LogisticRegression(C=0.1)
    )
    for model in (linear, HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, random_state=seed)):
        scores = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")[:, 1]
        aucs.append(auc_of(scores[:runs], scores[runs:]))
    auc = max(aucs)
    doubt = 1.96 * float(np.sqrt((auc * (1.0 - auc) + (runs - 1) * 2.0 * _spread(auc)) / runs**2))
    low, high = auc - doubt, min(auc + doubt, 1.0)
    allowed = f"; the messages alone allow {norm.cdf(mode.mu / np.sqrt(2.0)):.3f}" if mode.name == "dp" else ""
    said = f"{2 * runs:,} lessons: AUC {auc:.3f} ({low:.3f} to {high:.3f}){allowed}"
    if again:
        said += "; but whoever knows every other row and the seed can compute the same model again, and so knows for certain"
        auc, low, high = 1.0, 1.0, 1.0
    if low > MOST_AUC:
        said += f"; more than {MOST_AUC:g}, so look at a model before you hand it over"
    return Finding(attack, mode.name, said, auc=auc, between=(low, high))


def _spread(auc: float) -> float:
    """Variance of one side's part of an AUC (Hanley and McNeil), the same for both sides here on the mean."""
    first, second = auc / (2.0 - auc), 2.0 * auc**2 / (1.0 + auc)
    return 0.5 * (first + second) - auc**2
