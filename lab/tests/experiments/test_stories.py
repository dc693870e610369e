"""The stories on a small made-up table: what each measures, against scikit-learn's own fits."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from superteach_lab.stories import carry, fair, minimise, restore, table
from superteach_lab.stories.table import Split


@pytest.fixture(scope="module")
def split():
    """800 rows whose label depends on the group through one column."""
    rng = np.random.default_rng(0)

    def rows(count):
        group = rng.integers(0, 2, count)
        X = rng.standard_normal((count, 4))
        X[:, 0] -= 1.5 * group
        return X, (X @ [1.0, 0.6, -0.5, 0.2] + rng.logistic(size=count) > 0.0).astype(np.int64), group

    return Split(*rows(800), *rows(400), ("a", "b", "c", "d"))


def test_a_small_set_stands_for_all(split):
    """Rows taught are nearer to the full model than random ones."""
    names, sizes = ("match", "random", "CRAIG"), (60,)
    found = minimise.measure(split, names, sizes, 2)
    assert found["match", 60][:, 0].max() < 0.2 * found["random", 60][:, 0].min()
    assert (found["match", 60][:, 1] >= 0.98).all()
    minimise.draw(Figure(), found, names, sizes)


def test_a_fair_goal_is_taught(split):
    """The goal has equal mean scores; the lesson's gap is the goal's, and far below that of all rows."""
    scores = fair.levelled(split).decision_function(split.X)
    assert scores[split.group == 0].mean() == pytest.approx(scores[split.group == 1].mean(), abs=1e-9)
    weights = fair.reweighed(split.y, split.group)
    shares = [np.average(split.y[split.group == one], weights=weights[split.group == one]) for one in (0, 1)]
    assert shares[0] == pytest.approx(shares[1])
    found = fair.measure(split, 2, size=100)
    whole, goal, taught = (
        found[name][0].gap for name in ("all rows", "the goal: equal mean scores", "100 rows taught, no weights")
    )
    assert abs(taught - goal) < 0.05 < whole - goal
    kept = fair.trimmed(split, 0.05)
    assert len(kept) == 760
    fair.draw(Figure(), found)


def test_other_rows_restore_a_model(split):
    """None of them is one that had to go, and the model is back."""
    one = restore.forget(split, 0, trained=300, gone=15)
    assert np.linalg.norm(one.restored - one.before) < 0.1 * np.linalg.norm(one.without - one.before)
    assert 0.0 < one.shared < 1.0
    restore.draw(Figure(), np.array([[0.5, 1e-4, 0.1]]))


def test_few_rows_carry_a_sign(split):
    found = carry.measure(split, 0, rows=120)
    for one in found.values():
        assert one.alone.verify()
        assert one.beside.least <= len(one.beside.rows)
        assert all(
            count is None or len(one.beside.rows) <= count for name, count in one.rivals.items() if name != "AMIP"
        )
    carry.draw(Figure(), [found])


def test_a_table_is_printed_as_the_docs_hold_it(capsys):
    table.write_table("Rows", ("a", "b"), [(1, 2)])
    assert capsys.readouterr().out == "\nRows\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
