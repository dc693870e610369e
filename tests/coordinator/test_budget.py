"""The global choice from counts against a plain sort of everybody's scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import superteach as st
from superteach.coordinator.methods.base import PATH_FRACTIONS, lesson_sizes
from superteach.coordinator.path import last_ranks
from superteach.exceptions import BudgetError, QueryRefused, TeachingError
from superteach.losses import Squared
from superteach.protocol.queries import CountRanks, Keep, Prepare, RankRows, Size, Weigh
from superteach.settings import check_budget
from superteach.teacher import ranks

teachers = pytest.mark.parametrize("K", [1, 3, 7])


def ranked(scores: np.ndarray, K: int, federation_of, ids: np.ndarray | None = None) -> st.Federation:
    """K teachers whose rows have these very scores.

    The squared loss ranks by |y + x'p| − c; rows with y = 0 and x = score at p = 1 would lose the sign, so
    the scores are handed to the teachers' ranking as they are.
    """
    federation = federation_of(np.zeros((len(scores), 1)), np.zeros(len(scores)), K)
    engine = federation.engine
    for position, part in enumerate(np.array_split(np.arange(len(scores)), K)):
        if ids is not None:
            federation.everyone[position].ids = ids[part]
        keys = ranks.keys_of_scores(scores[part])
        engine._states[position] = st.teacher.State(ranking=ranks.Ranking(keys))
    return federation


def by_lexsort(scores: np.ndarray, count: int, ids: np.ndarray | None = None) -> np.ndarray:
    """The rows with the highest scores, ties to the smallest id, from one sort of everything."""
    ids = np.arange(len(scores)) if ids is None else ids
    return np.sort(ids[np.lexsort([ids, -scores])[:count]])


def awkward_scores(seed: int, size: int) -> np.ndarray:
    """Scores with many ties, zeros of both signs, infinities, subnormal and neighbouring numbers."""
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, -np.inf, np.inf, 5e-324, -5e-324, 1.0, np.nextafter(1.0, 2.0), -1.0, 1e308, -1e308]
    picked = rng.choice(special, size)
    return np.where(rng.random(size) < 0.7, picked, rng.normal(0.0, 1.0, size).round(1))


@teachers
@pytest.mark.parametrize("seed", range(3))
def test_every_count_matches_a_lexsort(K, seed, federation_of, chosen_rows):
    """For every n the rows kept are those of one lexsort, and all n can be asked for at once."""
    scores = awkward_scores(seed, 90)
    federation = ranked(scores, K, federation_of)
    counts = list(range(1, 91))
    for count, last in zip(counts, last_ranks(federation, counts), strict=True):
        assert federation.sum(Keep(last)) == Size(count, 0)
        assert np.array_equal(np.sort(chosen_rows(federation)), by_lexsort(scores, count))


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.floats(allow_nan=False), min_size=1, max_size=40),
    some.sampled_from([1, 3, 7]),
    some.data(),
)
def test_any_scores(federation_of, chosen_rows, scores, K, data):
    """Any finite or infinite scores, with shuffled ids of any size."""
    scores = np.array(scores)
    ids = data.draw(some.lists(some.integers(0, 2**64 - 1), min_size=len(scores), max_size=len(scores), unique=True))
    ids = np.array(ids, dtype=np.uint64)
    count = data.draw(some.integers(1, len(scores)))
    federation = ranked(scores, K, federation_of, ids)
    federation.sum(Keep(last_ranks(federation, [count])[0]))
    found = np.concatenate(
        [t.ids[s.chosen] for t, s in zip(federation.everyone, federation.engine.states(), strict=True)]
    )
    assert np.array_equal(np.sort(found), by_lexsort(scores, count, ids))


@teachers
def test_rank_query_sorts_by_alpha(K, federation_of, chosen_rows):
    """RankRows at a point chooses the rows with the largest |y + x'p| − c of the squared loss."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    point, direction = rng.standard_normal(3), rng.standard_normal(3)
    federation = federation_of(X, y, K, Squared())
    assert federation.sum(Weigh(direction, 0.5)) == 0
    assert federation.sum(RankRows("dual", point)) == [200]
    federation.sum(Keep(last_ranks(federation, [31])[0]))
    scores = np.abs(y + X @ point) - 0.5 / np.abs(X @ direction)
    assert np.array_equal(np.sort(chosen_rows(federation)), by_lexsort(scores, 31))


def test_the_choice_does_not_depend_on_who_holds_the_rows(federation_of, chosen_rows):
    """One, three and seven teachers choose the same rows, ties included."""
    scores = awkward_scores(9, 120)
    choices = []
    for K in (1, 3, 7):
        federation = ranked(scores, K, federation_of)
        federation.sum(Keep(last_ranks(federation, [47])[0]))
        choices.append(chosen_rows(federation))
    assert np.array_equal(choices[0], choices[1])
    assert np.array_equal(choices[0], choices[2])


def test_rounds_do_not_grow_with_counts(federation_of):
    """At most sixteen rounds find any number of thresholds."""
    federation = ranked(np.zeros(300), 3, federation_of)
    before = len(federation.ledger)
    last_ranks(federation, [1, 5, 77, 150, 299, 300])
    assert len(federation.ledger) - before <= 16


def test_shared_ids_are_found_out(federation_of):
    """Two rows with one id and one score cannot be told apart, and that is said."""
    federation = ranked(np.zeros(4), 2, federation_of, np.array([0, 1, 1, 2], dtype=np.uint64))
    with pytest.raises(TeachingError, match="share one id"):
        last_ranks(federation, [2])


def test_more_rows_than_ranked(federation_of):
    """A count beyond the ranked rows is refused with both numbers."""
    with pytest.raises(TeachingError, match="only 4 rows are ranked, 5"):
        last_ranks(ranked(np.zeros(4), 2, federation_of), [5])


def test_counting_needs_ranks(federation_of):
    """A teacher that has not ranked its rows says so, also after a fresh start."""
    federation = federation_of(np.zeros((4, 1)), np.zeros(4), 2)
    with pytest.raises(QueryRefused, match="ranks"):
        federation.sum(CountRanks((b"",)))
    federation.sum(RankRows("random"))
    federation.sum(CountRanks((b"",)))
    federation.sum(Prepare(Squared(), 0.0))
    with pytest.raises(QueryRefused, match="ranks"):
        federation.sum(CountRanks((b"",)))


@pytest.mark.parametrize(
    "budget",
    [0, -3, 0.0, -0.1, 1.0001, np.nan, np.inf, "most", "", None, True, np.True_, [5], 3 + 0j, np.array([3])],
)
def test_bad_budgets_are_refused(budget):
    """What is neither a count, nor a fraction, nor "best" is named and refused."""
    with pytest.raises(BudgetError, match="budget="):
        check_budget("budget", budget)


def test_a_budget_larger_than_the_pool():
    """More rows than there are is refused with both numbers."""
    with pytest.raises(BudgetError, match="101 rows is more than the 100"):
        lesson_sizes(101, 100, 3)
    assert lesson_sizes(100, 100, 3) == [100]


@pytest.mark.parametrize(
    ("budget", "rows", "counts"),
    [
        (7, 100, [7]),
        (np.int64(7), 100, [7]),
        (0.25, 100, [25]),
        (np.float32(0.5), 100, [50]),
        (1.0, 37, [37]),
        (1, 37, [1]),
        (1e-9, 37, [1]),
    ],
)
def test_budgets_become_counts(budget, rows, counts):
    """An int is a count, a float a fraction, and a fraction is never less than one row."""
    assert lesson_sizes(check_budget("budget", budget), rows, 3) == counts


@pytest.mark.parametrize("rows", [1, 5, 12, 100, 5000])
def test_the_best_path(rows):
    """budget="best" looks at ascending, distinct sizes from a little more than the width to all rows."""
    counts = lesson_sizes("best", rows, 10)
    assert counts == sorted(set(counts))
    assert counts[-1] == rows
    assert counts[0] >= min(11, rows)
    wanted = {round(share * rows) for share in PATH_FRACTIONS if round(share * rows) >= min(11, rows)}
    assert wanted <= set(counts)


@pytest.mark.long(every=5)
@teachers
def test_random_rows_are_uniform(K, federation_of, chosen_rows):
    """Over many seeds each row is chosen about as often as a fair draw would have it."""
    rows, size, trials = 40, 10, 1200
    federation = federation_of(np.zeros((rows, 1)), np.zeros(rows), K)
    hits, pairs = np.zeros(rows), np.zeros((rows, rows))
    for seed in range(trials):
        federation.sum(RankRows("random", seed=seed))
        federation.sum(Keep(last_ranks(federation, [size])[0]))
        mask = np.zeros(rows)
        mask[chosen_rows(federation)] = 1.0
        hits += mask
        pairs += np.outer(mask, mask)
    share = size / rows
    expected = trials * share
    # Chi-square with 39 degrees of freedom (scaled for draws without replacement): 99.99 % lies below 80.
    statistic = ((hits - expected) ** 2).sum() / (expected * (1 - share)) * (rows - 1) / rows
    assert statistic < 80.0
    both = trials * share * (size - 1) / (rows - 1)
    off = pairs[np.triu_indices(rows, 1)]
    assert abs(off.mean() - both) < 1e-9
    assert np.abs(off - both).max() < 5.5 * np.sqrt(both)


def test_random_rows_depend_on_the_seed_alone(federation_of, chosen_rows):
    """A seed gives one choice, whoever holds the rows; another seed gives another."""
    choices = {}
    for K in (1, 3, 7):
        for seed in (0, 1, 2, 2**63):
            federation = federation_of(np.zeros((500, 1)), np.zeros(500), K)
            federation.sum(RankRows("random", seed=seed))
            federation.sum(Keep(last_ranks(federation, [50])[0]))
            choices[K, seed] = tuple(np.sort(chosen_rows(federation)))
    for seed in (0, 1, 2, 2**63):
        assert choices[1, seed] == choices[3, seed] == choices[7, seed]
    assert len(set(choices.values())) == 4
    # Neighbouring seeds share about a tenth of their rows, as independent draws do.
    assert len(set(choices[1, 0]) & set(choices[1, 1])) < 20
