"""`superteach reproduce` and `compare` on a terminal, where they show how far they are."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.end_to_end.orders import command
from tests.end_to_end.terminal import Terminal


def test_reproduce_shows_its_cells_and_can_be_interrupted(tmp_path: Path) -> None:
    """From the first moment, when it is not known how many cells there are."""
    with Terminal(command("reproduce", "theorem", "--quick", "--workers", "1", "--out", "out"), tmp_path) as person:
        person.until("left")
        person.process.send_signal(signal.SIGINT)
        assert person.status() == 130
    done = [(int(cells), int(all_)) for cells, all_ in re.findall(r"(\d+)/(\d+) cells", person.text)]
    assert done == sorted(done)
    assert done[0][0] == 0 < done[-1][0] < done[-1][1]
    assert "Traceback" not in person.text


def test_compare_shows_its_cells_and_can_be_interrupted(tmp_path: Path) -> None:
    order = [
        "compare",
        "--rows",
        "100",
        "--sizes",
        "10",
        "--seeds",
        "50",
        "--methods",
        "random,match",
        "--out",
        "out",
    ]
    with Terminal(command(*order), tmp_path) as person:
        person.until(" rows, seed ")
        person.process.send_signal(signal.SIGINT)
        assert person.status() == 130
    assert re.search(r"(random|match), 10 rows, seed \d+ .* \d+/101 ", person.text)
    assert person.text.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in person.text
