"""The paper's method over Spark, which its authors ran it on: the same rows and objective as in one process."""

from __future__ import annotations

import numpy as np
import pytest

from superteach import spark
from superteach.optim import Block, Newton
from tests.paper.dual import KINDS, paper_pool

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", [Newton(), Block(max_steps=15)], ids=["newton", "block"])
def test_the_papers_method_over_spark(session, kind, solver):
    """Owners are teachers; sums come in another order, so objectives agree to rounding, and chosen rows are the same."""
    problem = paper_pool(kind, 200, 3, 4)
    here = problem.teach(solver, 20)
    names = ["x0", "x1", "x2"]
    rows = [
        (place, *map(float, x), float(y), int(owner))
        for place, (x, y, owner) in enumerate(zip(problem.X, problem.y, problem.owner, strict=True))
    ]
    table = session.createDataFrame(rows, ["id", *names, "y", "owner"]).repartition(3)
    lesson, chosen = spark.teach(
        table,
        problem.learner,
        problem.goal,
        target="y",
        owner="owner",
        features=names,
        method="dual",
        solver=solver,
        budget=20,
        sparsity=problem.sparsity,
        goal_weight=problem.goal_weight,
    )
    assert sorted(row.id for row in chosen.collect()) == here.sample_indices_.tolist()
    np.testing.assert_allclose(lesson.objective, here.lesson_.objective, rtol=1e-9)
    np.testing.assert_allclose(lesson.model, here.lesson_.model, rtol=1e-6)
    assert lesson.gap[-1] == pytest.approx(here.lesson_.gap[-1], rel=1e-6, abs=1e-9 * abs(lesson.objective[-1]))
