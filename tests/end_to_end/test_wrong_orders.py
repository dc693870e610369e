"""Wrong inputs on the command line: each meets one line that names the file, the column or the option, and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from superteach.cli import app
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
    (("line 2", "2 cells", "3 column names"), HEAD + "1,2\n"),
    (("line 33", "4 cells", "double quotes"), HEAD + ROWS + "\n1,2,3,0\n" + ROWS),
    (("line 5", "2 cells"), HEAD + '1,"2",0\n"1\n",2,0\n1,2\n'),
    (("not written in UTF-8", "line 32", r"gr\xfcn", "--encoding"), (HEAD + ROWS + "1,2,grün\n").encode("latin-1")),
    (("not written in UTF-8", "line 1", r"gr\xf6\xdfe"), ("größe,b,label\n" + ROWS).encode("latin-1")),
    (("separate columns by ';'", "points in numbers"), (HEAD + ROWS).replace(",", ";").replace(".", ",")),
    (("column 'a'", "row 0", "line 2", "'0,5'", "point"), HEAD + re.sub(r"(\d)\.(\d)", r'"\1,\2"', ROWS)),
    (("column 'b'", "row 30", "line 32", "'?'", "no number"), HEAD + ROWS + "1,?,0\n"),
    (("column 'b'", "row 1", "line 3", "'1,234'", "thousands"), HEAD + '1,2,0\n1,"1,234",0\n' + ROWS),
    (("begins with numbers", "column names above"), ROWS),
    (("begins with numbers", "column names above"), "1,1,0\n" + ROWS),
    (("no rows",), "\n\n\n"),
    (("column names but no rows",), HEAD.strip()),
    (("continuous labels", "regression such as ridge"), HEAD + ROWS.replace(",1\n", ",1.5\n")),
    (("30 different values", "regression"), HEAD + "".join(f"{row % 7},{row % 5},{row}\n" for row in range(30))),
    (("holds no text but bytes",), bytes(range(256)) * 8),
    (("no column besides",), "label\n1\n0\n"),
    (("'a'", "no value at all"), HEAD + ",1,0\n,2,1\n"),
    (("'a'", "date"), HEAD + "2020-01-01,1,0\n2020-01-02,2,1\n"),
    (("'a'", "timestamp"), HEAD + "2020-01-01 10:00:00,1,0\n2020-01-02 11:00:00,2,1\n"),
    (("line 2", "3 cells", "1 column name"), "# from the ward\n" + HEAD + ROWS),
    (("'label'", "line 32", "missing"), HEAD + ROWS + "total,,\n"),
    (("'a'", "line 32", "missing"), HEAD + ROWS + "n/a,1,0\n"),
    (("'b'", "line 32", "'$5'"), HEAD + ROWS + "1,$5,0\n"),
    (("'b'", "line 32", "'5%'"), HEAD + ROWS + "1,5%,0\n"),
    (("'b'", "line 32", "'true'"), HEAD + ROWS + "1,true,0\n"),
    (("one class", "'yes'"), HEAD + "1,2,yes\n" * 9),
    (("'label'", "did you mean ' label'"), " a, b, label\n" + ROWS),
    (("column names but no rows",), '"a,b,label\n' + ROWS),
    (("holds no text but bytes",), b"\x00\x01\x02"),
    (("one class, 0",), HEAD + "1,2,0\n"),
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
    (("--C -1 must be", "above 0"), ["{east}", "--C", "-1"]),
    (("--C nan must be", "above 0"), ["{east}", "--C", "nan"]),
    (("--budget 1 is 1 of", "at least 2", "--budget 1.0"), ["{east}", "--budget", "1"]),
    (("encoding 'zork'",), ["{east}", "--encoding", "zork"]),
    (("encoding 'base64'",), ["{east}", "--encoding", "base64"]),
    (("--epsilon", "0"), ["{east}", "--budget", "20", "--privacy", "dp", "--epsilon", "0"]),
    (("goal.json", "x1"), ["{east}", "--goal", "{goal:coef}"]),
    (("goal.json", "size"), ["{east}", "--goal", "{goal:extra}"]),
    (("goal.json", "coef", '{"x0": 1.0, "x1": 1.0}'), ["{east}", "--goal", "{goal:none}"]),
    (("--epsilon", "--privacy dp"), ["{east}", "--epsilon", "0.1"]),
    (("--delta", "--privacy isolated"), ["{east}", "--budget", "20", "--privacy", "isolated", "--delta", "1e-7"]),
    (("--C", "'abc'"), ["{east}", "--C", "abc"]),
    (("--seed", "'1.5'"), ["{east}", "--seed", "1.5"]),
    (("--privacy", "from-data:FILE"), ["{east}", "--budget", "20", "--privacy", "dp"]),
    (("goal.json", "no coefficient for column 'x1'"), ["{east}", "--goal", "{goal:flat}"]),
    (("goal.json",), ["{east}", "--goal", "{goal:text}"]),
    (("goal.json",), ["{east}", "--goal", "{goal:broken}"]),
    (("nowhere.json",), ["{east}", "--goal", "nowhere.json"]),
    (("nowhere.csv",), ["{east}", "--goal", "from-data:nowhere.csv"]),
    (("goal.json", "'x0' stands there twice"), ["{east}", "--goal", "{goal:twice}"]),
    (("goal.json", "coef is None"), ["{east}", "--goal", "{goal:null}"]),
    (("goal.json", "intercept is 'big'"), ["{east}", "--goal", "{goal:intercept}"]),
    (("goal.json", "labels ['a']", "[0, 1]"), ["{east}", "--goal", "{goal:classes}"]),
    (("0 entries", "expected 4"), ["{east}", "--goal", "{goal:list}"]),
    (("'goal.yaml'", "perturbed"), ["{east}", "--goal", "goal.yaml"]),
    (("'pertubed'", "perturbed"), ["{east}", "--goal", "pertubed"]),
    (("--goal without:x9", "'x9'", "'x0'"), ["{east}", "--goal", "without:x9"]),
    (("reference file ''",), ["{east}", "--goal", "from-data:"]),
    (("--budget 10%",), ["{east}", "--budget", "10%"]),
    (("--budget 0,1",), ["{east}", "--budget", "0,1"]),
    (("--budget", "0.04"), ["{east}", "--budget", ""]),
    (("--budget", "-3"), ["{east}", "--budget", "-3"]),
    (("--budget", "1000.0"), ["{east}", "--budget", "1e3"]),
    (("--budget", "5:0.5"), ["{east}", "--budget", "5:0.5"]),
    (("--budget", "1:2:3"), ["{east}", "--budget", "1:2:3"]),
    (("--method dul", "'dual'"), ["{east}", "--method", "dul"]),
    (("--privacy", "'open'"), ["{east}", "--privacy", "open"]),
    (("--measure", "'risk'"), ["{east}", "--measure", "risk"]),
    (("--solver", "'sgd'"), ["{east}", "--solver", "sgd"]),
    (("--epsilon", "'one'"), ["{east}", "--privacy", "dp", "--epsilon", "one"]),
    (("--delta", "1"), ["{east}", "--privacy", "dp", "--delta", "1"]),
    (("--seconds", "-1"), ["{east}", "--seconds", "-1"]),
    (("--positive", "'2'"), ["{east}", "--positive", "2"]),
    (("both the target and the owner",), ["{east}", "--owner", "label"]),
    (("'x0;x1'",), ["{east}", "--features", "x0;x1"]),
    (("--C 0 must be",), ["{east}", "--C", "0"]),
    (("--C", "'1,5'"), ["{east}", "--C", "1,5"]),
    (("'utf-9'",), ["{east}", "--encoding", "utf-9"]),
    (("'*.csv' does not exist",), ["*.csv"]),
    (("--bugdet", "--budget"), ["{east}", "--bugdet", "5"]),
    (("'max-auc:1'",), ["{east}", "--goal", "max-auc:1"]),
    (("--goal-seed 3", "--goal max-auc"), ["{east}", "--goal", "max-auc", "--goal-seed", "3"]),
    (("--restarts 3", "--method match", "--method dual"), ["{east}", "--method", "dual", "--restarts", "3"]),
    (("--sparsity 0.5", "--method dual"), ["{east}", "--sparsity", "0.5"]),
    (("--cache", "--out-of-core"), ["{east}", "--cache", "/tmp"]),
]
STORED = {
    "coef": {"coef": {"x0": 1.0}, "intercept": 0.0},
    "extra": {"coef": dict.fromkeys([*COLUMNS, "size"], 1.0)},
    "none": {"slope": [1.0]},
    "flat": {"x0": 1.0},
    "text": {"coef": dict.fromkeys(COLUMNS, "large")},
    "null": {"coef": dict.fromkeys(COLUMNS)},
    "intercept": {"coef": dict.fromkeys(COLUMNS, 1.0), "intercept": "big"},
    "classes": {"coef": dict.fromkeys(COLUMNS, 1.0), "classes": ["a"]},
    "list": [],
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
    (tmp_path / "goal.json").write_text('{"coef": {"x0": 1, "x0": 2}}' if "{goal:twice}" in given else '{"coef": [')
    for kind in given:
        if kind.startswith("{goal:") and (stored := STORED.get(kind[6:-1])) is not None:
            (tmp_path / "goal.json").write_text(json.dumps(stored))
    if "{east}.txt" in given:
        (tmp_path / "east.txt").write_text("x0,label\n1,0\n")
    places = {"{east}": east, "{north}": north, "{east}.txt": str(tmp_path / "east.txt")}
    order = [str(tmp_path / "goal.json") if one.startswith("{goal:") else places.get(one, one) for one in given]
    usual = [*USUAL] if "--goal" not in given else ["--target", "label", "--learner", "logistic", "--no-intercept"]
    assert_refused(run("teach", *order, *usual, *OUT(tmp_path)), *words)
    assert not (tmp_path / "out").exists()


USAGE = [
    (["teach", "--lerner", "ridge"], "--learner", None),
    (["tech"], "'teach'", None),
    (["zork"], "'zork'", "superteach"),
    (["federation", "zork"], "'zork'", "superteach federation"),
    (["report", "a", "b"], "(b)", "superteach report"),
    (["teach"], "--learner", None),
    (["demo", "--rows", "5"], "--rows", None),
]


@pytest.mark.parametrize(("order", "named", "page"), USAGE, ids=lambda value: str(value))
def test_a_wrong_usage_is_sent_to_the_help_that_has_the_answer(order, named, page):
    """To that of its own command, and nowhere where the sentence says what to do."""
    said = CliRunner().invoke(app, order, prog_name="superteach").stderr
    assert named in said
    assert re.findall(r"see (.*) --help", said) == [page] * bool(page)
