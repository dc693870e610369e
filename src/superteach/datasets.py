"""The paper's synthetic pools: four Gaussian clusters of unit variance and equal weight, owned by K teachers.

Loaders of published data (`load_higgs` and others) come from the laboratory, `superteach_lab.data`, where it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach import packages
from superteach.exceptions import MissingExtra, SettingError
from superteach.types import Array, Foreign, Raw, is_whole

Owners = npt.NDArray[np.int64]

CLUSTERS = 4


def __getattr__(name: str) -> Any:
    """Bring a loader in from the laboratory, or from another package that names it."""
    if name not in {*packages.LABORATORY[packages.DATASETS], *packages.parts(packages.DATASETS)}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return packages.load(packages.DATASETS, name)


def make_classification_pool(
    rows: int = 5000, features: int = 10, teachers: int = 5, random_state: int = 0, *, as_frame: bool = False
) -> tuple[Foreign, Foreign, Owners]:
    """Return X, y, owner with x_j ~ N(m_k, I), m_k ~ N(0, 0.5² I), y_j = k mod 2 for the cluster k of row j.

    With as_frame=True X is a pandas DataFrame with columns x0, x1, … and y a Series.
    """
    generator = _generator(rows, features, teachers, random_state)
    X, cluster = _clusters(generator, rows, features, spread=0.5)
    owner = split_evenly(rows, teachers, generator)
    return *_form(X, cluster % 2, as_frame), owner


def make_regression_pool(
    rows: int = 5000,
    features: int = 10,
    teachers: int = 5,
    noise: float = 20.0,
    random_state: int = 0,
    *,
    as_frame: bool = False,
) -> tuple[Foreign, Foreign, Owners]:
    """Return X, y, owner with x_j ~ N(m_k, I), m_k ~ N(0, I), y_j = x_j'w + noise·ε_j, w ~ N(0, 10² I), ε ~ N(0, 1)."""
    generator = _generator(rows, features, teachers, random_state)
    if not (isinstance(noise, int | float | np.number) and np.isfinite(noise) and noise >= 0.0):
        raise SettingError(f"noise={noise!r} must be a finite number of at least 0")
    X, _ = _clusters(generator, rows, features, spread=1.0)
    y = X @ (10.0 * generator.standard_normal(features))
    # Drawn even where it is multiplied by 0, so that a noise-free pool has the same owners as a noisy one.
    y += noise * generator.standard_normal(rows)
    owner = split_evenly(rows, teachers, generator)
    return *_form(X, y, as_frame), owner


def as_tables(X: Raw, y: Raw, names: Sequence[str]) -> tuple[Foreign, Foreign]:
    """Return rows as a pandas DataFrame with named columns of their own types, and targets as a Series."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "frame", "as_frame=True") from None
    frame = pandas.DataFrame(X, columns=list(names), copy=False)
    return (frame.infer_objects() if X.dtype == object else frame), pandas.Series(y, name="target")


def _form(X: Array, y: Raw, as_frame: bool) -> tuple[Foreign, Foreign]:
    return as_tables(X, y, [f"x{place}" for place in range(X.shape[1])]) if as_frame else (X, y)


def split_evenly(rows: int, teachers: int, generator: np.random.Generator) -> Owners:
    """Give every row an owner 0 … K−1 at random, ⌊N/K⌋ rows each and one more for the first N mod K."""
    return generator.permutation(np.arange(rows, dtype=np.int64) % teachers)


def _generator(rows: int, features: int, teachers: int, random_state: int) -> np.random.Generator:
    given = {"rows": rows, "features": features, "teachers": teachers, "random_state": random_state}
    for (name, value), bound in zip(given.items(), (CLUSTERS, 1, 1, 0), strict=True):
        if not is_whole(value) or value < bound:
            raise SettingError(f"{name}={value!r} must be an int of at least {bound}")
    if teachers > rows:
        raise SettingError(f"teachers={teachers} is more than the {rows} rows; every teacher needs at least one")
    return np.random.default_rng(random_state)


def _clusters(
    generator: np.random.Generator, rows: int, features: int, spread: float
) -> tuple[Array, npt.NDArray[np.int64]]:
    centres = spread * generator.standard_normal((CLUSTERS, features))
    cluster = generator.permutation(np.arange(rows, dtype=np.int64) % CLUSTERS)
    return centres[cluster] + generator.standard_normal((rows, features)), cluster
