"""Colours, and the stylesheet of a page: light and dark, narrow and wide, screen and paper."""

from __future__ import annotations

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


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_SERIES_RULES = "".join(f".s{number}{{--c:var(--s{number})}}" for number in range(1, len(MARKERS) + 1))
_DRAWING = (
    "svg text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;"
    "fill:var(--ink);stroke:none}"
    ".tick{fill:var(--soft)}.grid{stroke:var(--grid);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}"
    ".line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:2 4;stroke-linecap:round}"
    ".band{fill:var(--c);opacity:.18}.dot{fill:var(--c);stroke:var(--paper);stroke-width:1}"
    ".ring{fill:none;stroke:var(--c);stroke-width:2.2}.halo{fill:none;stroke:var(--paper);stroke-width:5}"
    ".level{stroke:var(--soft);stroke-width:1.4;stroke-dasharray:5 4}"
    "svg .mark{font-weight:600;fill:var(--c)}.back{paint-order:stroke;stroke:var(--paper)!important;stroke-width:4px;"
    "stroke-linejoin:round}"
    ".open{fill:var(--paper);stroke:var(--c);stroke-width:2}.link{stroke:var(--soft);stroke-width:1.5}"
    ".bar{fill:var(--c)}"
) + _SERIES_RULES

_LAYOUT = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);overflow-wrap:break-word;
font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}
main{max-width:56rem;margin:0 auto;padding:2rem 1.25rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .35rem;letter-spacing:-.01em}
h2{font-size:1.2rem;line-height:1.3;margin:2.6rem 0 .6rem;padding-top:.9rem;border-top:1px solid var(--rule)}
p,ul,ol{margin:.5rem 0;max-width:44rem}
a{color:var(--link)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;font-size:.875em}
pre{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:.7rem .9rem;overflow-x:auto}
.lede{color:var(--soft);margin:0 0 1.2rem}
.answer{font-size:1.15rem;line-height:1.5;margin:1rem 0;padding:.9rem 1.1rem;
background:var(--card);border-left:4px solid var(--s1);border-radius:0 6px 6px 0;max-width:none}
.answer p{max-width:none;margin:.2rem 0}
.facts{display:grid;grid-template-columns:repeat(3,1fr);gap:.6rem;margin:1.1rem 0 0;padding:0}
.facts div{border:1px solid var(--rule);border-radius:6px;padding:.55rem .75rem}
.facts dt{color:var(--soft);font-size:.84rem}
.facts dd{margin:0;font-size:1.3rem;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.35}
.facts dd+dd{font-size:.84rem;font-weight:400;color:var(--soft)}
figure{margin:1rem 0 1.2rem}
figure svg{display:block;width:100%;height:auto}
figure svg.narrow{display:none}
figcaption,.note{color:var(--soft);font-size:.9rem}
.note+.scroll{margin-top:.2rem}
.scroll{overflow-x:auto;max-width:100%;margin:.7rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.32rem .9rem .32rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{color:var(--soft);font-weight:600;white-space:nowrap}
tbody th{color:var(--ink);font-weight:400;white-space:normal;min-width:7rem;max-width:22rem}
.n{text-align:right;white-space:nowrap}
td.wide{min-width:14rem}
th code{white-space:nowrap}
td{min-width:4rem}
td.text{min-width:9rem}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--link);padding:.25rem 0}
footer{color:var(--soft);font-size:.85rem;margin-top:3rem;border-top:1px solid var(--rule);padding-top:.8rem}
@media (max-width:40rem){
main{padding:1.2rem 1rem 2rem}
h1{font-size:1.4rem}
.answer{font-size:1.05rem}
.facts{grid-template-columns:1fr 1fr}
.facts dd{font-size:1.15rem}
figure svg.wide{display:none}
figure svg.narrow{display:block}
}
@media print{
@page{margin:16mm}
body{font-size:10.5pt}
main{max-width:none;padding:0}
h2{break-after:avoid}
figure,.answer,.facts div,tr,pre{break-inside:avoid}
thead{display:table-header-group}
.scroll{overflow:visible}
figure svg{max-width:16cm}
details:not([open]){display:none}
summary{list-style:none;color:var(--soft)}
a{color:inherit;text-decoration:none}
pre{white-space:pre-wrap}
td.wide,td.text,tbody th{min-width:0}
table{font-size:9pt}
}
"""


def drawing_style() -> Markup:
    """Return the rules for a figure that stands in a file of its own."""
    return Markup(_themes("svg") + _DRAWING)


def page_style() -> Markup:
    """Return the rules for a whole page."""
    return Markup(_themes(":root") + _LAYOUT.replace("\n", "") + _DRAWING)


def _themes(root: str) -> str:
    # Paper is white whatever the screen is.
    dark = f"@media screen and (prefers-color-scheme:dark){{{root}{{{_variables(DARK)}}}}}"
    return f"{root}{{color-scheme:light dark;{_variables(LIGHT)}}}{dark}"
