"""Colours, and the rules of page.css and drawing.css with them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from superteach.report.markup import Markup

_LIGHT_AND_DARK = {
    "paper": ("#ffffff", "#14181c"),
    "card": ("#f5f7f9", "#1d2329"),
    "ink": ("#1b1f24", "#e8ebee"),
    "soft": ("#56606b", "#a7b0ba"),
    "rule": ("#d5dae0", "#39424b"),
    "grid": ("#e7eaee", "#2a3138"),
    "link": ("#005a9c", "#7cc4f5"),
    "s1": ("#0072b2", "#56b4e9"),
    "s2": ("#c04a00", "#ff8c42"),
    "s3": ("#2b2a12", "#f2efc2"),
    "s4": ("#9a10ea", "#b06cff"),
    "s5": ("#0a0a78", "#ff4d79"),
    "s6": ("#84502f", "#a2fb10"),
}
"""Series differ in lightness as well as in hue; tests hold them to contrast and to apartness for all eyes."""
LIGHT, DARK = ({name: pair[mode] for name, pair in _LIGHT_AND_DARK.items()} for mode in (0, 1))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, for figures on white that are no charts of a page."""
MARKERS = "osD^vP"
"""A marker for every series, as matplotlib names them: colour is never the only sign."""


def drawing_style() -> Markup:
    """Return the rules for a figure that stands in a file of its own."""
    return Markup(_themes("svg") + _rules("drawing.css"))


def page_style() -> Markup:
    """Return the rules for a whole page."""
    return Markup(_themes(":root") + _rules("page.css") + _rules("drawing.css"))


@cache
def _rules(file: str) -> str:
    """Read a stylesheet beside this module; its first line is a comment."""
    _, *rules = files("superteach.report").joinpath(file).read_text(encoding="utf-8").splitlines()
    return "".join(rules)


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _themes(root: str) -> str:
    # Paper is white whatever the screen is.
    dark = f"@media screen and (prefers-color-scheme:dark){{{root}{{{_variables(DARK)}}}}}"
    return f"{root}{{color-scheme:light dark;{_variables(LIGHT)}}}{dark}"
