"""Sites under a promise, each from files of its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from superteach.privacy.policy import Declared, Policy
from tests.organisations.promised import COLUMNS, NAMES, PEOPLE, ROWS, WIDTH, Carrier, open_site


@pytest.fixture
def town(tmp_path, pool):
    """`town(promise, **policy)` gives sites from files of their own, with ledgers and keys, and a line to them."""

    def make(promise="masked", names=NAMES, **rules):
        X, y = pool("logistic", len(names) * ROWS, WIDTH, 1)
        marks = tuple(PEOPLE[name].fingerprint for name in names)
        made = {}
        for place, name in enumerate(names):
            home = tmp_path / name
            home.mkdir(exist_ok=True)
            part = slice(place * ROWS, (place + 1) * ROWS)
            columns = {column: X[part, i] for i, column in enumerate(COLUMNS)}
            parquet.write_table(pa.table({**columns, "y": y[part].astype(int)}), home / "rows.parquet")
            declared = Declared(ROWS, COLUMNS, "y", (-1, 1))
            policy = Policy(("c",), promise, declared=declared, teachers=marks, folder=home / "chosen")
            policy = replace(policy, **rules)
            made[name] = open_site(home, name, policy)
        return SimpleNamespace(
            sites=made, line=Carrier({name: site.answer for name, site in made.items()}), folder=tmp_path, X=X, y=y,
        )  # fmt: skip

    return make
