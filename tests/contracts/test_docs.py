"""The docs against the package: code blocks run, links resolve, the list of queries is the real one."""

from __future__ import annotations

import io
import json
import re
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

from docs.queries import table
from superteach.protocol.queries import QUERIES
from superteach.selection.relaxation import BINS
from tests.protocol.test_queries import TALK, WIDTH

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
EXECUTED = [page for page in PAGES if page.name == "README.md" or page.parent.name == "docs"]


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """(line number, source) of every block marked python."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in found]


BLOCKS = [(page, line, source) for page in EXECUTED for line, source in python_blocks(page)]


@pytest.mark.parametrize(("page", "line", "source"), BLOCKS, ids=[f"{page.name}:{line}" for page, line, _ in BLOCKS])
def test_block_runs_by_itself(page, line, source, tmp_path):
    """Every block runs in an empty folder with nothing but its own names, without a warning of ours."""
    # Leading line breaks make a traceback point at the line of the page.
    code = compile("\n" * (line - 1) + source, str(page), "exec", dont_inherit=True)
    with chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        exec(code, {"__name__": "docs"})


NUMBER = r"[\d,]*\.?\d+(?:e-?\d+)?"


def check_output(written: str, printed: str) -> None:
    """The same words, and the same numbers to 5 %: another processor may round its way to another last digit."""
    assert re.sub(rf"\s*{NUMBER}\s*", " ", written) == re.sub(rf"\s*{NUMBER}\s*", " ", printed)
    for one, other in zip(re.findall(NUMBER, written), re.findall(NUMBER, printed), strict=True):
        assert float(other.replace(",", "")) == pytest.approx(float(one.replace(",", "")), rel=0.05, abs=1e-4)


def test_what_the_readme_prints_is_what_it_says_it_prints(tmp_path):
    """The comment behind each print is its output, up to a colon that explains it."""
    _, source = python_blocks(ROOT / "README.md")[0]
    said = re.findall(r"^print\(.*\)  # (.+)$", source, re.MULTILINE)
    out = io.StringIO()
    with chdir(tmp_path), redirect_stdout(out):
        exec(compile(source, "README.md", "exec", dont_inherit=True), {"__name__": "docs"})
    assert said
    check_output("\n".join(comment.partition(": ")[0] for comment in said), out.getvalue().rstrip())


def cells(notebook: Path, kind: str) -> list[str]:
    """The sources of one kind of cells."""
    stored = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in stored["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebooks_run_from_top_to_bottom(notebook, tmp_path):
    """Each is kept without outputs, which the site's build makes, and runs by itself."""
    stored = json.loads(notebook.read_text(encoding="utf-8"))
    assert all(not cell["outputs"] for cell in stored["cells"] if cell["cell_type"] == "code")
    names = {"__name__": "docs"}
    with chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for number, source in enumerate(cells(notebook, "code"), 1):
            exec(compile(source, f"{notebook.name}, cell {number}", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", [pytest.param("command-line.md", marks=pytest.mark.slow), "add-a-loss.md"])
def test_outputs_on_pages_are_what_commands_print(page, monkeypatch):
    """What `make figures` would write stands there: the same words, and the same numbers but for times."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import figures

    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    with figures.clinics():
        made = figures.output(text) if page in figures.OUTPUTS else figures.transcript(text)
    times = r"(?<=seconds) +(about )?[\d.]+|(?<=[kM]B)  +[\d.]+$"
    check_output(*(re.sub(times, "", one, flags=re.MULTILINE) for one in (text, made)))


def test_the_site_names_every_page_and_every_notebook():
    """`make docs` fails on a page that its navigation does not name; pages that are named and not there are left out."""
    named = set(
        re.findall(r"([\w/-]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    there = {str(page.relative_to(ROOT / "docs")) for page in [*ROOT.glob("docs/**/*.md"), *NOTEBOOKS]}
    assert there - named == set()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.name)
def test_links_resolve(page):
    """Every relative link leads to a file, and every anchor to a heading of it."""
    text = page.read_text(encoding="utf-8") if page.suffix == ".md" else "\n".join(cells(page, "markdown"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}, which has no such heading"


def test_the_table_of_queries_is_the_closed_list():
    """privacy.md has the facts of the classes, as `python docs/queries.py PAGE` writes them."""
    page = ROOT / "docs/privacy.md"
    assert page.read_text(encoding="utf-8").count(table()) == 1
    assert re.findall(r"^\| `(\w+)` \|", table(), re.MULTILINE) == [query.__name__ for query in QUERIES]


def length(said: str, query) -> int:
    """How many numbers a reply has in the table's words, where TALK asks with d columns."""
    d = WIDTH
    terms = {
        "one": 1,
        "d": d,
        "2d": 2 * d,
        "d(d+1)/2": d * (d + 1) // 2,
        "(d+1)(d+2)/2": (d + 1) * (d + 2) // 2,
    }
    times = {
        "": 1,
        "per step": len(getattr(query, "steps", ())),
        "per prefix": len(getattr(query, "prefixes", ())),
        "per radius": len(getattr(query, "radii", ())),
        "per octave": BINS,
        "per class": getattr(query, "classes", 0),
        "per output": len(query.centre) if query.name == "Compare" else 0,
        "per model": len(query.models) if query.name == "Compare" else 0,
    }
    total = 0
    for part in said.split(", "):
        found = re.fullmatch(
            r"(?:and )?(\S+(?: \+ \S+)*) (?:sums?|counts?|numbers?|(more for order 2)) ?(per \w+)?", part
        )
        assert found, f"{query.name}: {part!r} is no number of sums or counts"
        if not found[2] or query.order == 2:
            numbers = [terms[term] if term in terms else int(term) for term in found[1].split(" + ")]
            total += sum(numbers) * times[found[3] or ""]
    return total


def test_the_table_of_queries_counts_the_numbers_of_a_reply():
    """What the page says of a reply's length is what the query declares."""
    text = (ROOT / "docs/privacy.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE))
    for query in TALK:
        # "relax" has one more column than the learner; where rows are shown the length depends on them.
        if getattr(query, "function", None) != "relax" and not query.varies:
            assert length(said[type(query).__name__], query) == query.reply_length, query.name


def test_every_page_is_reached_from_the_index():
    """No page of the docs is an orphan."""
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    missing = [page.name for page in PAGES if page.parent.name == "docs" and page.name != "index.md"]
    assert [name for name in missing if f"({name})" not in index] == []


def test_pages_with_blocks_are_found():
    """The search for blocks itself works."""
    assert {page.name for page, _, _ in BLOCKS} >= {"README.md", "add-a-loss.md", "privacy.md"}
