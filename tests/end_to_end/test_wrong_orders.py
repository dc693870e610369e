"""Wrong inputs on the command line: each meets one line that names the file, the column or the option, and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.orders import COLUMNS, USUAL, assert_refused, files_of, run

HEAD = "a,b,label\n"
ROWS = "".join(f"{row % 7}.5,{row % 5},{row % 2}\n" for row in range(30))
CSV: list[tuple[tuple[str, ...], str | bytes]] = [
    (("empty",), ""),
    (("no rows",), HEAD),
    (("'label'", "did you mean"), ROWS.join(["a,b,Label\n", ""])),
    (("separate columns by ';'",), (HEAD + ROWS).replace(",", ";")),
    (("'a'", "'old'", "encode"), HEAD + "old,1,0\n" * 20 + ROWS),
    (("column 'a'", "row 1", "line 3", "missing"), HEAD + "1,2,0\n,2,1\n" + ROWS),
    (("column 'a'", "row 1", "line 4", "missing"), 'a,b,label\n1,"2",0\n\n,2,1\n' + ROWS),
    (("column 'a'", "line 2", "missing"), HEAD + "nan,2,1\n" + ROWS),
    (("column 'b'", "infinite"), HEAD + "1,inf,1\n" + ROWS),
    (("column 'b'", "row 0", "too large"), HEAD + "1,1e200,1\n" + ROWS),
    (("'label'", "missing"), HEAD + "1,2,\n" + ROWS),
    (("one class",), HEAD + "1,2,1\n2,3,1\n"),
    (("continuous labels such as 0.5",), HEAD + ROWS + "1,2,0.5\n"),
    (("columns named 'a'",), "a,a,label\n" + ROWS),
    (("without a name",), ",b,label\n" + ROWS),
    (("cannot be read",), HEAD + "1,2\n"),
    (("holds no text but bytes",), bytes(range(256)) * 8),
    (("no column besides",), "label\n1\n0\n"),
    (("'a'", "no value at all"), HEAD + ",1,0\n,2,1\n"),
    (("'a'", "date"), HEAD + "2020-01-01,1,0\n2020-01-02,2,1\n"),
    (("'a'", "timestamp"), HEAD + "2020-01-01 10:00:00,1,0\n2020-01-02 11:00:00,2,1\n"),
]
OPTIONS: list[tuple[tuple[str, ...], list[str]]] = [
    (("nowhere.csv", "does not exist"), ["nowhere.csv"]),
    (("holds no Parquet file",), ["/etc"]),
    (("given twice",), ["{east}", "{east}"]),
    (("ends in '.txt'",), ["{east}.txt"]),
    (("no feature column 'size'",), ["{east}", "--features", "x0,size"]),
    (("listed twice",), ["{east}", "--features", "x0,x0"]),
    (("is the target",), ["{east}", "--features", "x0,label"]),
    (("no owner column 'city'",), ["{east}", "--owner", "city"]),
    (("one file",), ["{east}", "{north}", "--owner", "x0"]),
    (("no costs column 'price'",), ["{east}", "--costs", "price"]),
    (("both the target and the costs",), ["{east}", "--costs", "label"]),
    (("--budget", "half"), ["{east}", "--budget", "half"]),
    (("--budget", "0"), ["{east}", "--budget", "0"]),
    (("--budget", "1.5"), ["{east}", "--budget", "1.5"]),
    (("--budget", "the smaller first"), ["{east}", "--budget", "9:5"]),
    (("budget", "999999 rows is more than"), ["{east}", "--budget", "999999"]),
    (("--risk-target",), ["{east}", "--budget", "smallest"]),
    (("--risk-target", "-1"), ["{east}", "--risk-target", "-1"]),
    (("--sparsity", "-1"), ["{east}", "--sparsity", "-1"]),
    (("--restarts", "0"), ["{east}", "--restarts", "0"]),
    (("--seed", "-1"), ["{east}", "--seed", "-1"]),
    (("--alpha", "--C"), ["{east}", "--alpha", "2"]),
    (("-1",), ["{east}", "--C", "-1"]),
    (("--epsilon", "0"), ["{east}", "--budget", "20", "--promise", "epsilon", "--epsilon", "0"]),
    (("goal.json", "x1"), ["{east}", "--goal", "{goal:coef}"]),
    (("goal.json", "size"), ["{east}", "--goal", "{goal:extra}"]),
    (("goal.json", "coef"), ["{east}", "--goal", "{goal:none}"]),
    (("goal.json",), ["{east}", "--goal", "{goal:text}"]),
    (("goal.json",), ["{east}", "--goal", "{goal:broken}"]),
    (("nowhere.json",), ["{east}", "--goal", "nowhere.json"]),
    (("nowhere.csv",), ["{east}", "--goal", "from-data:nowhere.csv"]),
]
STORED = {
    "coef": {"coef": {"x0": 1.0}, "intercept": 0.0},
    "extra": {"coef": dict.fromkeys([*COLUMNS, "size"], 1.0)},
    "none": {"slope": [1.0]},
    "text": {"coef": dict.fromkeys(COLUMNS, "large")},
}
OUT: Callable[[Path], list[str]] = lambda folder: ["--out", str(folder / "out")]  # noqa: E731


@pytest.mark.parametrize("number", range(len(CSV)), ids=lambda number: re.sub(r"\W+", "-", "-".join(CSV[number][0])))
def test_a_wrong_file_is_named(number, tmp_path):
    """With its column and line."""
    words, content = CSV[number]
    path = tmp_path / "north.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(run("teach", path, *USUAL, *OUT(tmp_path)), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=lambda n: re.sub(r"\W+", "-", "-".join(OPTIONS[n][0])))
def test_a_wrong_option_is_named(number, pool, tmp_path):
    """With the value that was given."""
    words, given = OPTIONS[number]
    east, north, _ = files_of(pool)
    (tmp_path / "goal.json").write_text('{"coef": [')
    for kind in given:
        if kind.startswith("{goal:") and (stored := STORED.get(kind[6:-1])):
            (tmp_path / "goal.json").write_text(json.dumps(stored))
    if "{east}.txt" in given:
        (tmp_path / "east.txt").write_text("x0,label\n1,0\n")
    places = {"{east}": east, "{north}": north, "{east}.txt": str(tmp_path / "east.txt")}
    order = [str(tmp_path / "goal.json") if one.startswith("{goal:") else places.get(one, one) for one in given]
    usual = [*USUAL] if "--goal" not in given else ["--target", "label", "--learner", "logistic", "--no-intercept"]
    assert_refused(run("teach", *order, *usual, *OUT(tmp_path)), *words)
    assert not (tmp_path / "out").exists()
