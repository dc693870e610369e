"""docs/how-we-compare.md is what its stored cells say, to the letter."""

from __future__ import annotations

import json

from superteach_lab.experiments import compare_page
from superteach_lab.rivals import ALL


def test_the_page_is_rendered_from_its_cells():
    page = (compare_page.DOCS / "how-we-compare.md").read_text(encoding="utf-8")
    assert page == compare_page.render(compare_page.read(compare_page.DOCS))


def test_another_number_in_the_cells_gives_another_page():
    """The page is not a fixed text: one better cell moves a rival into the list of losses."""
    cells = compare_page.read(compare_page.DOCS)
    before = compare_page.render(cells)
    for record in cells["logistic"]:
        if record["cell"]["contestant"] == "random":
            record["risk"] = 1e-12
    after = compare_page.render(cells)
    assert "| by | random |" not in before
    assert after.count("| random | 1e-12 |") == 10


def test_every_quick_contestant_is_on_the_page():
    """At every size and for every K that it depends on."""
    for source in compare_page.SOURCES:
        lines = compare_page.stored(source, compare_page.DOCS).read_text(encoding="utf-8").splitlines()
        assert json.loads(lines[0])["settings"] == {**source.settings(), "time_limit": compare_page.SECONDS}
        found = {json.loads(line)["cell"]["contestant"] for line in lines[1:]}
        assert {one.name for one in ALL if not one.slow} <= found


def test_forgetting_takes_one_contestant_out(tmp_path):
    source = compare_page.SOURCES[0]
    place = compare_page.stored(source, tmp_path)
    place.parent.mkdir()
    lines = compare_page.stored(source, compare_page.DOCS).read_text(encoding="utf-8")
    place.write_text(lines, encoding="utf-8")
    compare_page.forget(source, "match", tmp_path)
    kept = place.read_text(encoding="utf-8").splitlines()
    assert kept == [line for line in lines.splitlines() if '"contestant": "match"' not in line]
    assert len(kept) < len(lines.splitlines())
