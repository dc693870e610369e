"""The bench: what is asked for is run once, kept, and summed up as numpy would."""

from __future__ import annotations

import numpy as np
import pytest

from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.exceptions import BudgetError, DataError, SettingError
from superteach.io.validation import Part
from superteach.learner import Learner
from superteach.losses import Logistic
from superteach_lab.compare import bench
from superteach_lab.compare.figure import draw
from superteach_lab.compare.sources import Files, Synthetic
from superteach_lab.records import Records
from superteach_lab.rivals import by_name


def record(contestant, risk, seed=0, teachers=None, size=10, status="ok", reason=""):
    cell = {"pool": "logistic", "teachers": teachers, "seed": seed, "contestant": contestant, "size": size}
    return {
        "cell": cell, "status": status, "reason": reason, "risk": risk, "consistency": 0.9, "seconds": 2.0, "cpu": 1.0
    }  # fmt: skip


@pytest.mark.parametrize("make", [make_classification_pool, make_regression_pool])
def test_rows_do_not_depend_on_how_many_teachers_share_them(make):
    """So a central contestant need run only once for all K."""
    for one, other in zip(make(90, 4, 3, random_state=7)[:2], make(90, 4, 9, random_state=7)[:2], strict=True):
        assert np.array_equal(one, other)


def test_the_plan_has_every_cell_once_and_central_contestants_once_for_all_teachers():
    source = Synthetic("logistic", 100, teachers=(2, 4))
    cells = bench.plan(source, by_name(["random", "match", "full pool"]), [5, 10], 2)
    keys = [str(cell.key("logistic")) for cell in cells]
    assert len(set(keys)) == len(keys) == 2 * (1 + 2 + 2 * 2)
    assert {cell.teachers for cell in cells if cell.contestant.name == "match"} == {2, 4}
    assert {cell.teachers for cell in cells if cell.contestant.name == "random"} == {None}
    assert {cell.size for cell in cells if cell.contestant.name == "full pool"} == {100}


def test_a_bench_runs_each_cell_once(tmp_path):
    source = Synthetic("ridge", 60, 3, teachers=(2,))
    cells = bench.plan(source, by_name(["random", "leverage"]), [6], 2)
    records = Records(tmp_path / "cells.jsonl", source.settings())
    bench.run(source, cells, records, 60.0)
    stored = (tmp_path / "cells.jsonl").read_bytes()
    assert len(records) == 4
    assert all(record["status"] == "ok" for record in records)
    bench.run(source, cells, Records(tmp_path / "cells.jsonl", source.settings()), 60.0)
    assert (tmp_path / "cells.jsonl").read_bytes() == stored


def test_lines_are_medians_and_quartiles():
    risks = [3.0, 1.0, 8.0, 2.0]
    records = [record("random", risk, seed) for seed, risk in enumerate(risks)]
    records.append(record("random", None, 4, status="failed", reason="no idea"))
    first, second = bench.summary(records, 100, (5, 10))
    assert (first.teachers, second.teachers, first.share, first.seeds) == (5, 10, 0.1, 4)
    assert first.risk == pytest.approx(np.quantile(risks, [0.25, 0.5, 0.75]))
    assert (first.consistency, first.seconds, first.cpu) == (0.9, 2.0, 1.0)
    assert first.reasons == ("failed: no idea",)


def test_lines_count_proofs_and_take_the_median_of_distances():
    records = [
        {**record("match", 1.0, seed), "distance": apart, "out_of_reach": apart > 2.0}
        for seed, apart in enumerate([1.0, 5.0, 3.0])
    ]
    (line,) = bench.summary(records, 100, (5,))
    assert (line.distance, line.proved) == (3.0, 2)
    del records[0]["distance"], records[0]["out_of_reach"]  # as a file of an older version has it
    (line,) = bench.summary(records, 100, (5,))
    assert (line.distance, line.proved) == (None, 2)


def test_losses_are_found_on_the_seeds_that_both_have():
    records = [
        record("match", 0.2, teachers=5), record("match", 0.2, teachers=5, size=20),
        record("bit-flip", 0.1), record("bit-flip", 0.3, size=20), record("random", None, status="skipped"),
        # On seed 1, which match lacks, it did badly; that does not count either way.
        record("bit-flip", 9.0, seed=1),
        record("match long", 0.01, teachers=5),  # ours too, so no loss
    ]  # fmt: skip
    (loss,) = bench.beaten(bench.summary(records, 100, (5,)))
    assert (loss.line.contestant, loss.line.size, loss.ours.contestant) == ("bit-flip", 10, "match")
    assert (loss.risk, loss.our_risk, loss.seeds) == (0.1, 0.2, 1)


def test_a_contestant_that_never_ran_has_its_reason():
    (line,) = bench.summary([record("MINLP", None, status="skipped", reason="too large")], 100, (5,))
    assert (line.risk, line.seeds, line.reasons) == (None, 0, ("too large",))


@pytest.mark.parametrize(
    ("sizes", "found"), [([0.01, 0.3], [10, 300]), ([5, 5.0, 0.005], [5]), ([1000], [1000]), ([1.0], [1])]
)
def test_sizes_are_fractions_or_counts(sizes, found):
    assert bench.counts(sizes, 1000) == found


@pytest.mark.parametrize("size", [0.0, -1.0, 2000, 2.5, 0.0001, float("nan")])
def test_sizes_out_of_range_are_refused(size):
    with pytest.raises(BudgetError, match="neither a fraction"):
        bench.counts([size], 1000)


def test_other_learners_need_files():
    with pytest.raises(SettingError, match="give files"):
        Synthetic("poisson")


def test_files_are_one_pool_with_a_goal_for_each_seed():
    draw = np.random.default_rng(0)
    parts = [Part(name, draw.standard_normal((20, 2)), np.array(["a", "b"] * 10)) for name in ("n", "s")]
    source = Files(parts, ["u", "v"], Learner(Logistic()), None, {"learner": "logistic"})
    assert (source.rows, source.teachers) == (40, (2,))
    first, second = source.referee(2, 0, 1.0), source.referee(2, 1, 1.0)
    assert first.score(np.arange(40)).share == 1.0
    assert not np.array_equal(first.goal, second.goal)
    bad = Part("n", np.array([[np.nan, 1.0]] * 2), np.array(["a", "b"]))
    with pytest.raises(DataError, match="'n'"):
        Files([bad], ["u", "v"], Learner(Logistic()), None, {"learner": "logistic"})


def test_the_same_lines_give_the_same_files(tmp_path):
    records = [record(name, risk, size=size) for name, risk in (("random", 1.0), ("match", 0.0)) for size in (5, 10)]
    records.append(record("MINLP", None, status="skipped", reason="too large"))
    lines = bench.summary(records, 100, (5,))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        places = draw(lines, tmp_path / name)
        assert [place.name for place in places] == ["figure.png", "figure.svg"]
    for kind in ("png", "svg"):
        assert (tmp_path / f"a/figure.{kind}").read_bytes() == (tmp_path / f"b/figure.{kind}").read_bytes()
