"""Leaderboards: scikit-learn's logistic regression of votes, exhaustive search over votes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from superteach import drop
from superteach.exceptions import DataError, LearnerError


def votes(seed, count, names=4, gap=0.3):
    rng = np.random.default_rng(seed)
    strength = -gap * np.arange(names)
    pairs = np.array([rng.choice(names, 2, replace=False) for _ in range(count)])
    first = rng.random(count) < 1.0 / (1.0 + np.exp(strength[pairs[:, 1]] - strength[pairs[:, 0]]))
    won, lost = np.where(first, pairs[:, 0], pairs[:, 1]), np.where(first, pairs[:, 1], pairs[:, 0])
    letters = np.array(list("ABCDEFGHIJ"))
    return pd.DataFrame({"winner": letters[won], "loser": letters[lost]})


def first_place(table):
    """By scikit-learn: each vote twice, once from either side at half weight, has both classes whatever the votes."""
    names = np.unique(table.to_numpy())
    rows = (table.winner.to_numpy()[:, None] == names).astype(float) - (table.loser.to_numpy()[:, None] == names)
    both = np.vstack([rows, -rows])
    learner = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=2000, solver="newton-cholesky")
    learner.fit(both, np.repeat([1, 0], len(rows)), sample_weight=np.full(2 * len(rows), 0.5))
    return dict(zip(names, learner.coef_[0], strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_exhaustive_search_lies_between(seed):
    table = votes(seed, 24)
    before = first_place(table)
    result = drop(table, winner="winner", loser="loser")
    leader = max(before, key=before.get)
    assert result.names[0] == leader
    assert result.before == pytest.approx(before[leader] - before[result.names[1]], abs=1e-6)
    truth = 4
    for count in (1, 2, 3):
        some = (
            [first_place(table.drop(index=list(gone))) for gone in combinations(range(24), count)] if count < 3 else []
        )
        if any(
            max(after.values()) - after.get(leader, -9.0) >= -1e-9 and max(after, key=after.get) != leader
            for after in some
        ):
            truth = count
            break
    assert result.least <= max(truth, len(result.rows))
    if truth <= 2:
        assert result.least <= truth == len(result.rows)
    else:
        assert len(result.rows) >= 3
    after = first_place(table.drop(index=result.rows.tolist()))
    assert after[leader] <= after[result.names[1]] + 1e-6


def test_proof_meets_search_where_few_votes_decide():
    """Thousands of votes, a close race: what few votes can do is nearly linear, and the proof finds the same number."""
    table = votes(1, 6000, names=6, gap=0.02)
    result = drop(table, winner="winner", loser="loser")
    assert result.rows is not None
    assert 1 <= result.least <= len(result.rows) <= 1.3 * result.least + 1
    lists = drop(None, winner=table.winner.tolist(), loser=table.loser.tolist())
    assert (lists.least, lists.names) == (result.least, result.names)
    assert "votes" in result.sentence()


@pytest.mark.parametrize(
    ("given", "error", "field"),
    [
        ({"winner": "winer", "loser": "loser"}, DataError, "winner='winer'"),
        ({"winner": "winner"}, DataError, "loser"),
        ({"winner": "winner", "loser": "winner"}, DataError, "row 0"),
        ({"winner": ["A", "B"], "loser": ["B"]}, DataError, "loser"),
        ({"winner": ["A"], "loser": ["B"]}, DataError, "one row"),
        ({"winner": ["A", None], "loser": ["B", "B"]}, DataError, "winner: row 1"),
        ({"winner": "winner", "loser": "loser", "learner": LogisticRegression()}, LearnerError, "leaderboard"),
    ],
)
def test_bad_input(given, error, field):
    with pytest.raises(error, match=field):
        drop(votes(0, 12), **given)
