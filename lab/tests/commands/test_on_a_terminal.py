"""`superteach reproduce`, `compare` and `audit` on a terminal: how far they are, and tables that fit."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.orders import command
from tests.end_to_end.terminal import Terminal


def test_reproduce_shows_its_cells_and_can_be_interrupted(tmp_path: Path) -> None:
    with Terminal(command("reproduce", "theorem", "--quick", "--workers", "1", "--out", "out"), tmp_path) as person:
        person.until("2/30 cells")
        person.process.send_signal(signal.SIGINT)
        assert person.status() == 130
    done = [(int(cells), int(all_)) for cells, all_ in re.findall(r"(\d+)/(\d+) cells", person.text)]
    assert done == sorted(done)
    assert done[0][0] < done[-1][0] < done[-1][1]  # on a quick machine the first cell may be done before it is shown
    assert "Traceback" not in person.text


def test_compare_shows_its_cells_and_can_be_interrupted(tmp_path: Path) -> None:
    order = ["compare", "--rows", "100", "--sizes", "10", "--seeds", "50", "--methods", "random,match", "--out", "out"]
    with Terminal(command(*order), tmp_path) as person:
        person.until(" rows, seed ")
        person.process.send_signal(signal.SIGINT)
        assert person.status() == 130
    assert re.search(r"\d+/100 cells .*(random|match), 10 rows, seed \d+", person.text)
    assert person.text.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in person.text


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_compare_never_cuts_a_method_or_a_number(columns: int, tmp_path: Path) -> None:
    """What does not fit is left out as a whole column; why a method has no risk stands below the table."""
    draw = np.random.default_rng(0)
    lines = [f"{a:.6g},{b:.6g},{int(a > 0)}" for a, b in draw.standard_normal((80, 2))]
    (tmp_path / "rows.csv").write_text("\n".join(["u,v,ill", *lines]) + "\n")
    methods = ["facility location", "gradient matching", "block"]
    order = ["compare", "rows.csv", "--target", "ill", "--sizes", "20", "--seeds", "1", "--methods", ",".join(methods)]
    with Terminal(command(*order), tmp_path, columns=columns) as person:
        assert person.status() == 0, person.text
    shown = person.text[person.text.index("logistic, K = 1") :]  # behind the bar
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    for method in methods:
        assert re.search(rf"^ ?{method} +20 ", shown, re.MULTILINE), shown
    assert "[" in shown or columns < 160
    assert "block: the paper's block rule has no unpenalised intercept" in " ".join(shown.split())


def test_an_audit_says_what_it_does_and_fits_eighty_columns(tmp_path: Path) -> None:
    order = ["audit", "--privacy", "none", "--out", "page.html"]
    with Terminal(command(*order), tmp_path, columns=80) as person:
        assert person.status() == 0, person.text
    assert re.search(r"none: [a-z]+ .* 0:00:\d\d", person.text)
    assert "…" not in person.text
    assert max(map(len, person.text.splitlines()[-20:])) <= 80
    (tmp_path / "page.html").unlink()
    piped = subprocess.run(command(*order), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
