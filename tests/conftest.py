"""Small pools and federations that the tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import superteach as st
from superteach.losses import LOSSES, Loss
from superteach.protocol.queries import Prepare


def make_pool(kind: str, rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets that suit one of the five losses."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    signal = X @ rng.standard_normal(features)
    if LOSSES[kind].classifies:
        return X, np.where(signal + 1.5 * rng.standard_normal(rows) > 0.0, 1.0, -1.0)
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.3 * signal + 0.5)).astype(np.float64)
    return X, signal + 1.5 * rng.standard_normal(rows)


def make_federation(
    X: Any,
    y: np.ndarray,
    K: int,
    loss: Loss | None = None,
    constant: float = 0.0,
    threads: int | None = None,
    watch: Callable[[Any], None] | None = None,
) -> st.Federation:
    """K teachers with consecutive rows and global row numbers as ids, told of the loss where one is given."""
    parts = np.array_split(np.arange(len(y)), K)
    teachers = [st.Teacher(f"t{i}", X[part], y[part], ids=part) for i, part in enumerate(parts)]
    engine = st.Threads(teachers, threads=threads)
    federation = st.Federation(engine, watch)
    # So that a test can look at what the teachers keep for themselves.
    federation.engine, federation.everyone = engine, teachers
    if loss is not None:
        federation.sum(Prepare(loss, constant))
    return federation


def pooled_choice(federation: st.Federation) -> np.ndarray:
    """Global numbers of the rows the teachers have chosen."""
    states = federation.engine.states()
    return np.concatenate(
        [teacher.ids[state.chosen].astype(np.int64) for teacher, state in zip(federation.everyone, states, strict=True)]
    )


@pytest.fixture(scope="session")
def pool() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """`pool(kind, rows, features, seed)` gives rows and targets for a loss."""
    return make_pool


@pytest.fixture(scope="session")
def federation_of() -> Callable[..., st.Federation]:
    """`federation_of(X, y, K)` deals consecutive rows out to K teachers."""
    return make_federation


@pytest.fixture(scope="session")
def chosen_rows() -> Callable[[st.Federation], np.ndarray]:
    """`chosen_rows(federation)` gives the global numbers of the rows that teachers chose."""
    return pooled_choice
