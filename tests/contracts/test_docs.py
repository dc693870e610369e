"""The docs against the package: blocks run, links resolve, and reference pages name everything there is."""

from __future__ import annotations

import inspect
import io
import json
import re
import warnings
from contextlib import chdir, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import superteach
from docs.queries import table
from superteach.protocol.queries import QUERIES
from superteach.selection.relaxation import BINS
from tests.protocol.test_queries import TALK, WIDTH

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
GENERATED = DOCS / "generated"
EXECUTED = [page for page in PAGES if page.name == "README.md" or (DOCS in page.parents and page.parent != GENERATED)]
BY_HAND = 22, 30_000
"""Pages and words that people write and read, at most."""


def page_named(name: str) -> Path:
    """A page, on whichever shelf it stands."""
    (found,) = DOCS.rglob(name)
    return found


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """(line number, source) of every block marked python."""
    text = page.read_text(encoding="utf-8")
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in blocks]


CONTINUED = [page for page in EXECUTED if page.parent.name == "tutorials" and python_blocks(page)]
"""Pages whose blocks are run in order, as a reader would."""
BLOCKS = [(page, line, source) for page in EXECUTED if page not in CONTINUED for line, source in python_blocks(page)]


def run(page: Path, line: int, source: str, names: dict[str, object]) -> None:
    """Run a block; leading line breaks make a traceback point at the line of the page."""
    exec(compile("\n" * (line - 1) + source, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize(("page", "line", "source"), BLOCKS, ids=[f"{page.name}:{line}" for page, line, _ in BLOCKS])
def test_block_runs_by_itself(page, line, source, tmp_path):
    """Every block runs in an empty folder with nothing but its own names, without a warning of ours."""
    with chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run(page, line, source, {"__name__": "docs"})


@pytest.mark.parametrize("page", CONTINUED, ids=lambda page: page.name)
def test_tutorials_run_from_top_to_bottom(page, tmp_path):
    """A tutorial's blocks share their names and one folder."""
    names: dict[str, object] = {"__name__": "docs"}
    with chdir(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for line, source in python_blocks(page):
            run(page, line, source, names)


NUMBER = r"[\d,]*\.?\d+(?:e-?\d+)?"


def check_output(written: str, printed: str) -> None:
    """The same words, and the same numbers to 5 %: another processor may round its way to another last digit."""
    written, printed = (re.sub(r"-(0\.0+)(?!\d)", r"\1", text) for text in (written, printed))  # -0.000 is 0.000
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


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("reference/command-line.md", marks=pytest.mark.slow),
        "how-to/extend.md",
        "tutorials/your-own-csv.md",
    ],
)
def test_outputs_on_pages_are_what_commands_print(page, monkeypatch):
    """The page shows what `make figures` would write: the same words, and the same numbers but for times."""
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.setenv("COLUMNS", "100")
    import figures

    text = (DOCS / page).read_text(encoding="utf-8")
    if page in figures.OUTPUTS:
        made = figures.output(text, continued=page.startswith("tutorials/"))
    else:
        with figures.clinics():
            made = figures.transcript(text)
    times = r"(?<=seconds) +(about )?[\d.]+|(?<=[kM]B)  +[\d.]+$"
    check_output(*(re.sub(times, "", one, flags=re.MULTILINE) for one in (text, made)))


def test_the_site_names_every_page_and_every_notebook():
    """`make docs` fails on a page that its navigation does not name; pages that are named and missing are left out."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"([\w/-]+\.(?:md|ipynb))$", config, re.MULTILINE))
    written = {str(page.relative_to(DOCS)) for page in [*ROOT.glob("docs/**/*.md"), *NOTEBOOKS]}
    assert written - named == set()


def test_pages_by_hand_stay_few_and_short():
    """What people write stays what people can read; generated pages are apart, and name their command."""
    pages = [page for page in DOCS.rglob("*.md") if page.parent != GENERATED]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    assert (len(pages) <= BY_HAND[0], words <= BY_HAND[1]) == (True, True), (len(pages), words)
    for page in GENERATED.glob("*.md"):
        assert re.search(r"python |superteach reproduce", page.read_text(encoding="utf-8")[:2000]), page.name


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
        anchor = anchor if there.suffix == ".md" else ""  # a picture is for light or for dark pages
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}, which has no such heading"


def test_the_table_of_queries_is_the_closed_list():
    """privacy.md has the facts of the classes, as `python docs/queries.py PAGE` writes them."""
    assert page_named("privacy.md").read_text(encoding="utf-8").count(table()) == 1
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
        "for costs": getattr(query, "costs", 0),
        "per output": len(query.centre) if query.name == "Compare" else 0,
        "per model": len(query.models) if query.name == "Compare" else 0,
    }
    total = 0
    for part in said.split(", "):
        found = re.fullmatch(
            r"(?:and )?(\S+(?: \+ \S+)*) (?:sums?|counts?|numbers?|(more for order 2)) ?((?:per|for) \w+)?", part
        )
        assert found, f"{query.name}: {part!r} is no number of sums or counts"
        if not found[2] or query.order == 2:
            numbers = [terms[term] if term in terms else int(term) for term in found[1].split(" + ")]
            total += sum(numbers) * times[found[3] or ""]
    return total


def test_the_table_of_queries_counts_the_numbers_of_a_reply():
    """What the page says of a reply's length is what the query declares."""
    text = page_named("privacy.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE))
    for query in TALK:
        # "relax" has one more column than the learner; where rows are shown the length depends on them.
        if getattr(query, "function", None) != "relax" and not query.varies:
            assert length(said[type(query).__name__], query) == query.reply_length, query.name


def test_every_page_is_reached_from_the_index():
    """No page of the docs is an orphan."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = [*(page for page in PAGES if DOCS in page.parents and page.name != "index.md"), *NOTEBOOKS]
    assert [str(page) for page in pages if f"({page.relative_to(DOCS)})" not in index] == []


def documented() -> list[object]:
    """Everything that the API reference takes docstrings from."""
    found = []
    for dotted in re.findall(r"^::: (\S+)$", (DOCS / "reference/api.md").read_text(encoding="utf-8"), re.MULTILINE):
        module, _, name = dotted.rpartition(".")
        try:
            found.append(getattr(import_module(module), name))
        except AttributeError:
            found.append(import_module(dotted))
    return found


def public(module: ModuleType) -> list[object]:
    """What a module offers: the names in `__all__`, or else its own functions and classes."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    values = [getattr(module, name) for name in names]
    own = [one for one in values if inspect.isclass(one) or inspect.isroutine(one)]
    return own if hasattr(module, "__all__") else [one for one in own if one.__module__ == module.__name__]


def test_the_reference_has_every_public_name():
    """All of `superteach.__all__`, and what its modules for users offer."""
    found = documented()
    missing = []
    for name in superteach.__all__:
        value = getattr(superteach, name)
        parts = public(value) if isinstance(value, ModuleType) and value not in found else [value]
        missing += [part for part in parts if part not in found and inspect.getmodule(part) not in found]
    assert missing == []


def test_the_command_line_has_every_option_of_teach():
    """The page names each option."""
    from typer.main import get_command

    from superteach.cli import app

    page = (DOCS / "reference/command-line.md").read_text(encoding="utf-8")
    options = [word for option in get_command(app).commands["teach"].params for word in option.opts]  # type: ignore[attr-defined]
    assert [word for word in options if word.startswith("--") and word != "--help" and f"`{word}`" not in page] == []


def test_readers_find_the_words_they_search_for():
    """The site's search finds what newcomers call these things."""
    text = "\n".join(page.read_text(encoding="utf-8").lower() for page in PAGES)
    for words in ("machine teaching", "subset selection", "fairness", "unlearning", "cite", "positive class"):
        assert words in text


def test_pages_with_blocks_are_found():
    """The search for blocks itself works."""
    assert {page.name for page, _, _ in BLOCKS} >= {"README.md", "extend.md", "method.md"}
    assert CONTINUED
