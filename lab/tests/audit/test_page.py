"""`superteach audit` from the command line to the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from superteach.errors import SettingError
from superteach.privacy.ledger import Ledger
from superteach_lab.commands.audit import app


class Balanced(HTMLParser):
    """Counts open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "col", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def asked(*order: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in order], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_says_what_left_what_was_tried_and_what_is_not_covered(tmp_path):
    place = tmp_path / "audit.html"
    Ledger(tmp_path / "ledger", 2.0, 1e-6).spend("first", np.arange(5, dtype=np.uint64), 0.2, {})
    promises = "--promise", "closed", "--promise", "epsilon"
    said = asked(*promises, "--epsilon", 3, "--runs", 2_000, "--ledger", tmp_path / "ledger", "--out", place)
    assert "ε promised 3, measured at least" in said
    html = place.read_text(encoding="utf-8")
    checker = Balanced()
    checker.feed(html)
    assert checker.open == []
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S))
    for words in (
        "What left each owner", "Attacks tried", "does not cover", "ε promised", "found out", "old copy of the ledger",
        "and recovered no row", "What the rows have spent", "noise halved", "Answered with an acknowledgement",
        "Audit of 2 promises", "Tell huge lies as one of the owners",
    ):  # fmt: skip
        assert words in text, words
    assert not re.search(r"\bnan\b|BROKEN|WRONG|\bNO\b", text)


def test_files_are_audited_and_told_as_json(tmp_path):
    draw = np.random.default_rng(1)
    for place in range(3):
        X = draw.standard_normal((60, 3))
        y = np.where(X.sum(axis=1) > 0.0, "yes", "no")
        lines = [",".join([*map(repr, map(float, x)), label]) for x, label in zip(X, y, strict=True)]
        (tmp_path / f"{place}.csv").write_text("\n".join(["a,b,c,y", *lines]), encoding="utf-8")
    (tmp_path / "goal.json").write_text("[0.5, 0.4, 0.3, 0.1]", encoding="utf-8")
    files = [tmp_path / f"{place}.csv" for place in range(3)]
    order = [*files, "--target", "y", "--goal", tmp_path / "goal.json", "--promise", "closed", "--json"]
    told = json.loads(asked(*order, "--out", tmp_path / "page.html"))
    assert [one["promise"] for one in told["promises"]] == ["closed"]
    assert told["promises"][0]["rows"] == 0
    assert "0.csv, 1.csv, 2.csv: 180 rows of 3 owners" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (["--promise", "secret"], "--promise 'secret' is not known"),
        (["--target", "y"], "go with files"),
        (["rows.csv", "--target", "y"], "--goal is missing"),
        (["--learner", "ridge"], "needs files"),
        (["--ledger", "nowhere"], "holds no ledger"),
    ],
)
def test_wrong_orders_are_told_apart(order, words, tmp_path):
    with pytest.raises(SettingError, match=re.escape(words)):
        asked(*order, "--out", tmp_path / "page.html")
