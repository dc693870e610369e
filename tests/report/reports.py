"""What the tests of reports share: the lessons they tell of, and a reader of their pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import superteach as st

ROWS, TEACHERS = 300, 4
VOID = {"meta", "br", "col", "hr"}


class Reader(HTMLParser):
    """Reads a page into its elements, and fails where tags do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.tables: list[list[list[str]]] = []
        self.data: list[tuple[str, str]] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "data":
            self.data.append((dict(attrs)["value"], ""))
            if "table" in self.open:
                self.tables[-1][-1][-1] += dict(attrs)["value"]
        elif tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, f"<{tag}/> is no HTML"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))
        if "data" in self.open:
            self.data[-1] = (self.data[-1][0], self.data[-1][1] + data)
        elif {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data
        if "h2" in self.open:
            self.headings[-1] += data

    def table(self, *headings: str) -> list[list[str]]:
        """The rows of the table with these headings; cells of numbers are their exact values."""
        found = [table for table in self.tables if table[0] == list(headings)]
        assert len(found) == 1, [table[0] for table in self.tables]
        return found[0][1:]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


_FORM = re.compile(r"^(−?)([\d,]*\.?\d*)(?:\u202f×\u202f)?(?:10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?(?:\u202f(%|B|kB|MB|GB))?$")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_UNITS = {None: 1.0, "%": 0.01, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def shown(text: str) -> float:
    """A number as a reader would take it."""
    power = re.fullmatch(r"(−?)10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if power:
        return (-1.0 if power[1] else 1.0) * 10.0 ** int(power[2].translate(_LOWERED))
    match = _FORM.match(text)
    assert match, text
    value = float(match[2].replace(",", "")) * _UNITS[match[4]]
    if match[3]:
        value *= 10.0 ** int(match[3].translate(_LOWERED))
    return -value if match[1] else value


CASES = {
    "dual": ("logistic", {"budget": "best"}),
    "lbfgs": ("squared", {"budget": (0.1, 0.5), "solver": st.optim.LBFGS()}),
    "block": ("squared", {"budget": 60, "solver": st.optim.Block(max_steps=7)}),
    "match": ("logistic", {"method": "match", "budget": "best"}),
    "smallest": ("logistic", {"method": "match", "budget": "smallest", "risk_target": 0.05}),
    "out of reach": ("noise-free", {"method": "match", "budget": 0.2}),
    "random": ("squared_hinge", {"method": "random", "budget": 0.5, "random_state": 3}),
    "oblivious": ("logistic", {"method": "oblivious", "budget": 40}),
    "oblivious-minlp": ("squared", {"method": "oblivious-minlp", "budget": 4, "solver_seconds": 60}),
    "poisson": ("poisson", {"budget": 0.5, "standardize": True}),
}
LEARNERS = {
    "logistic": LogisticRegression(),
    "squared": Ridge(fit_intercept=False),
    "noise-free": Ridge(fit_intercept=False),
    "squared_hinge": LinearSVC(intercept_scaling=2.0),
    "poisson": PoissonRegressor(alpha=0.5),
}
