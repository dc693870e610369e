"""docs/generated/how-we-compare.md is what its stored cells say, to the letter."""

from __future__ import annotations

import json
import statistics

import pytest

from superteach_lab.experiments import compare_page, real_tables
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


@pytest.mark.parametrize("source", compare_page.EVERY, ids=lambda source: source.name)
def test_every_quick_contestant_is_on_the_page(source):
    """At every size and for every K that it depends on."""
    lines = compare_page.stored(source, compare_page.DOCS).read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["settings"] == compare_page.settings(source)
    found = {json.loads(line)["cell"]["contestant"] for line in lines[1:]}
    assert {one.name for one in ALL if not one.slow} <= found


@pytest.mark.parametrize("source", real_tables.SOURCES, ids=lambda source: source.name)
def test_match_and_the_rivals_have_every_goal(source):
    """Every size and every goal or seed of a real table or wide pool; whoever takes long has the first ones."""
    cells = compare_page.read(compare_page.DOCS)[source.name]
    places = [tuple(record["cell"].values()) for record in cells]
    assert len(set(places)) == len(places)
    for name in ("random", "dual", "match"):
        found = {(one["cell"]["size"], one["cell"]["seed"]) for one in cells if one["cell"]["contestant"] == name}
        assert found == {(size, seed) for size in source.sizes for seed in range(source.seeds)}, name
    for name in ("match long", "bit-flip"):
        stopped = False
        for size in source.sizes:
            own = [one for one in cells if (one["cell"]["contestant"], one["cell"]["size"]) == (name, size)]
            if stopped:  # at a smaller size already
                assert not own, (name, size)
                continue
            stopped = own[0]["reason"].startswith(real_tables.STOPPED)
            assert len(own) in ((1,) if stopped else (real_tables.FEW, source.seeds)), (name, size)


def medians(table: str) -> dict[str, list[str]]:
    """The cells of a table in markdown, by contestant."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows[2:]}


@pytest.mark.parametrize("source", compare_page.REAL, ids=lambda source: source.name)
def test_a_real_table_shows_the_medians_of_its_cells(source):
    """Risk and processor time, then predictions, worked out here from the file by other means."""
    page = (compare_page.DOCS / "how-we-compare.md").read_text(encoding="utf-8")
    chapter = page.split(f"\n### {source.name}\n")[1].split("\n#")[0]
    above, below = chapter.split("\nDistance in predictions;")
    cells = compare_page.read(compare_page.DOCS)[source.name]
    for number, size in enumerate(source.sizes):
        own = [one for one in cells if (one["cell"]["contestant"], one["cell"]["size"]) == ("match", size)]
        found = [medians(above)["match"][number], medians(below)["match"][number]]
        for shown, name in zip(found, ("risk", "distance"), strict=True):
            assert float(shown.strip("*")) == pytest.approx(statistics.median(one[name] for one in own), rel=0.05)
        time = medians(above)["match"][len(source.sizes) + number]
        assert float(time.removesuffix(" s")) == pytest.approx(statistics.median(one["cpu"] for one in own), rel=0.05)
        proved = sum(one["out_of_reach"] for one in own)
        assert medians(above)["proved out of reach"][number] == f"{proved} of {source.seeds}"


def test_another_number_in_a_real_tables_cells_gives_another_page():
    """A better rival, a proof and a rival that is stopped are all seen."""
    cells = compare_page.read(compare_page.DOCS)
    source = compare_page.REAL[0]
    for record in cells[source.name]:
        if record["cell"]["contestant"] == "random":
            record["risk"], record["distance"] = 1e-12, 1e-13
        if record["cell"]["contestant"] == "match":
            record["out_of_reach"] = True
        if record["cell"]["contestant"] == "herding":
            record.update(status="failed", risk=None, reason=f"{real_tables.STOPPED} 30 seconds; stopped")
    page = compare_page.render(cells)
    lost = [line for line in page.splitlines() if line.startswith(f"| {source.name} | ")]
    assert sum("| random | 1e-12 |" in line for line in lost) == len(source.sizes)
    assert sum("| random | 1e-13 |" in line for line in lost) == len(source.sizes)
    chapter = page.split(f"\n### {source.name}\n")[1].split("\n#")[0].split("\nDistance in")[0]
    many = len(source.sizes)
    assert medians(chapter)["proved out of reach"][:many] == [f"{source.seeds} of {source.seeds}"] * many
    assert medians(chapter)["herding"] == [f"> {real_tables.SECONDS:g} s"] * 2 * many
    assert medians(chapter)["random"][:many] == ["**1e-12**"] * many


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
