"""What the tests of the command line share: files, orders, and how an error must look."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from typer.testing import CliRunner

from superteach.cli import app
from superteach.datasets import make_classification_pool

COLUMNS = [f"x{number}" for number in range(4)]
OWNERS = ["east", "north", "south"]


def write_pool(folder: Path) -> Path:
    """One CSV per teacher, and the same rows as one Parquet file with an owner column."""
    X, y, owner = make_classification_pool(600, len(COLUMNS), len(OWNERS), random_state=1)
    order = np.argsort(owner, kind="stable")
    X, y, owner = X[order], y[order], owner[order]
    table = pa.table({**dict(zip(COLUMNS, X.T, strict=True)), "label": y, "site": np.array(OWNERS)[owner]})
    pyarrow.parquet.write_table(table, folder / "pool.parquet", row_group_size=100)
    for number, name in enumerate(OWNERS):
        own = table.filter(pa.array(owner == number)).drop_columns("site")
        pyarrow.csv.write_csv(own, folder / f"{name}.csv")
    return folder


def files_of(pool: Path) -> list[str]:
    return [str(pool / f"{name}.csv") for name in OWNERS]


USUAL = ["--target", "label", "--learner", "logistic", "--goal", "perturbed", "--no-intercept"]


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def assert_refused(result: Any, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    for word in words:
        assert word in result.stderr


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def without_times(text: str) -> str:
    text = re.sub(r'"seconds": [^,\n]+', '"seconds": 0', text)
    return re.sub(r">seconds</th><td[^>]*><data [^<]*</data>", ">seconds", text)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "superteach", *map(str, arguments)]
