"""Teachers on disk: the answers of teachers in memory, to the last bit, and files that go with the process."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest

import superteach as st
from superteach.coordinator.teach import teach
from superteach.exceptions import QueryRefused, TeachingError
from superteach.goals import PerturbedFit
from superteach.learner import Learner
from superteach.losses import LOSSES, Logistic
from superteach.privacy.guard import Guard
from superteach.teacher import paged
from superteach.teacher.paged import Paged, Store
from tests.protocol.test_queries import asked_of, replies_to, talk_on

WIDTH, K = 3, 3


@pytest.fixture(autouse=True)
def everything_on_disk(monkeypatch):
    """Small arrays too."""
    monkeypatch.setattr(paged, "_SMALL", 1)


def both(X, y, folder, kind=np.float64):
    """The same rows in memory and on disk."""
    parts = np.array_split(np.arange(len(y)), K)
    teachers = [st.Teacher(f"t{i}", X[part].astype(kind), y[part], part) for i, part in enumerate(parts)]
    store = Store(folder)
    away = [Paged(one, store, int(part[0])) for one, part in zip(teachers, parts, strict=True)]
    return st.Threads(teachers), st.Threads(away)


@pytest.mark.long(every=4)
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_every_query_has_the_same_sum_on_disk(kind, pool, tmp_path):
    X, y = pool(kind, 301, WIDTH, 0)
    memory, disk = both(X, y, tmp_path)
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = asked_of(memory, query)
        one, other = (replies_to(engine, asked, number).tobytes() for engine in (memory, disk))
        assert one == other, asked.name


@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_float32_sums_are_near_those_of_float64(kind, pool, tmp_path):
    """Rows that were rounded to float32 change a sum by about 6e-8 of its terms; the sums themselves are float64."""
    X, y = pool(kind, 301, WIDTH, 0)
    memory, _ = both(X, y, tmp_path)
    _, disk = both(X, y, tmp_path, np.float32)
    loss = LOSSES[kind]()
    for query in talk_on(loss):
        if (
            query.name in ("Prepare", "loss moments", "square moments", "Compare")
            and getattr(query, "rows", "all") == "all"
        ):
            asked = asked_of(memory, query)
            one, other = memory.sum(asked, 1), disk.sum(asked, 1)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(one).max())


@pytest.mark.long(every=4)
@pytest.mark.parametrize(
    "how",
    [
        {"method": "dual"},
        {"method": "match", "rounding": "together"},
        {"method": "match", "rounding": "alone"},
        {"method": "match", "rounding": "alone", "restarts": 2, "standardize": True},
        {"method": "random"},
    ],
    ids=str,
)
def test_the_same_lesson_on_disk(how, pool, tmp_path):
    X, y = pool("logistic", 2000, WIDTH, 1)
    memory, disk = both(X, y, tmp_path)
    one = teach(st.Federation(memory), Learner(Logistic()), PerturbedFit(3), budget=60, **how)
    other = teach(st.Federation(disk), Learner(Logistic()), PerturbedFit(3), budget=60, **how)
    assert one.model.tobytes() == other.model.tobytes()
    for here, there in zip(memory.states(), disk.states(), strict=True):
        np.testing.assert_array_equal(here.chosen, there.chosen)


def test_a_float32_lesson_is_judged_in_float64(pool, tmp_path):
    """Rows chosen from a float32 copy teach the same goal when the float64 rows are fitted: to 1e-5 of its length."""
    X, y = pool("logistic", 4000, WIDTH, 1)
    _, disk = both(X, y, tmp_path, np.float32)
    goal = np.array([0.5, -0.4, 0.3])
    lesson = teach(st.Federation(disk), Learner(Logistic(), 1.0, "none"), goal, budget=400, rounding="alone")
    firsts = [int(part[0]) for part in np.array_split(np.arange(len(y)), K)]
    rows = np.concatenate([first + state.chosen for first, state in zip(firsts, disk.states(), strict=True)])
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X[rows], y[rows])
    assert abs(np.linalg.norm(fitted.coef_[0] - goal) - lesson.risk) <= 1e-5 * np.linalg.norm(goal)


def test_memories_that_stay_are_not_written_again(tmp_path):
    """A state whose arrays have not changed shares its places; what nobody remembers is used again."""
    store, array = Store(tmp_path), np.arange(100_000.0)
    first = store.put({"a": array, "b": 1})
    size = store.size
    for number in range(5):
        seen, known = store.get(first)
        assert seen["b"] == (1 if number == 0 else number - 1 + 10)
        np.testing.assert_array_equal(seen["a"], array)
        assert not seen["a"].flags.writeable
        first = store.put({"a": seen["a"], "b": number + 10}, known=known)
    assert store.size == size
    del first, seen, known
    gc.collect()
    store.put(np.arange(100_000.0))
    assert store.size == size


def test_the_file_has_no_name_and_ends_with_a_killed_process(tmp_path):
    script = (
        "import numpy, os, pathlib, signal\nfrom superteach.teacher.paged import Store\n"
        f"place = pathlib.Path({str(tmp_path)!r})\nkept = Store(place).put(numpy.ones(1 << 20))\n"
        "print(os.listdir(place), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == -9
    assert run.stdout.strip() == "[]"
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_named(tmp_path):
    """A limit on file sizes stands in for a full disk."""
    script = (
        "import numpy, pathlib, resource, signal\nfrom superteach.teacher.paged import Store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        f"Store(pathlib.Path({str(tmp_path)!r})).put(numpy.ones(1 << 20))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "TeachingError: the copy of the rows in" in run.stderr
    assert "make room there, or name another folder" in run.stderr
    with pytest.raises(TeachingError, match="cannot be written"):
        Store(tmp_path / "nowhere")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_chunks_of_a_table_are_no_owners(pool, tmp_path):
    X, y = pool("logistic", 30, WIDTH, 0)
    teacher = Paged(st.Teacher("t", X, y), Store(tmp_path), 0)
    with pytest.raises(QueryRefused, match="privacy='none'"):
        teacher.under(Guard())
    assert pickle.loads(teacher.start().picture.bones).chosen is None
