"""What a run as a whole says: what reproduces, what does not and why, where match wins and where it does not.

Every number in these sentences is taken from the findings; a sentence whose findings are not there is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from superteach_lab.paper import curves, printed
from superteach_lab.paper.plan import Findings, Target, shown, span
from superteach_lab.records import Record

Discussed = list[tuple[str, list[str]]]
DIP = 0.1
"""A dip counts as one where the lowest risk is this share below both ends of the path."""


def discuss(found: Sequence[tuple[Target, Findings]]) -> Discussed:
    """Headings with their paragraphs; nothing where there is nothing to say."""
    numbers = {target.name: findings.numbers for target, findings in found}
    parts = [
        (
            "What reproduces, and how far",
            [*_pattern(numbers), *_dips(numbers), *_weights(numbers), *_rounds(numbers), *_theorem(numbers)],
        ),
        ("What does not reproduce", [*_ridge(numbers), *_real(numbers)]),
        ("Where match wins, and where it does not", [*_hundred(numbers), *_unreachable(numbers), *_price(numbers)]),
    ]
    return [(heading, words) for heading, words in parts if words]


def _lines(numbers: Record, target: str, method: str) -> list[Record]:
    """One method's lines over all N and K, where it was run and chose something."""
    cells = numbers.get(target, {}).get("cells", [])
    return [line for cell in cells if (line := cell["lines"].get(method)) is not None and line["risk"] is not None]


def _pattern(numbers: Record) -> Iterable[str]:
    if "table-logistic" not in numbers:
        return
    seen = numbers["table-logistic"]["pattern"]
    dual, pool = (_lines(numbers, "table-logistic", name) for name in ("dual", "pool"))
    agreement = span([line["consistency"] for line in dual], 3)
    shows = min(seen["half_the_pools_risk"], seen["consistency_at_least_0.9"]) == seen["cells"]
    yield (
        f"Logistic regression {'shows' if shows else 'does not show everywhere'} the printed pattern: with "
        f"{span([100 * line['fraction'] for line in dual])} % of the rows the paper's problem leaves a mean risk of "
        f"{span([line['risk'] for line in dual])} where all rows leave "
        f"{span([line['risk'] for line in pool])}, at most half in {seen['half_the_pools_risk']} of {seen['cells']} "
        f"cells, with a consistency of {agreement}, 0.9 or more in {seen['consistency_at_least_0.9']} "
        "(printed: 0.92 to 0.98)."
    )
    pairs = [
        (cell["lines"]["dual, printed size"]["risk"], cell["lines"]["printed"]["risk"])
        for cell in numbers["table-logistic"]["cells"]
        if "dual, printed size" in cell["lines"] and "printed" in cell["lines"]
    ]
    if pairs:
        yield (
            f"At the |S|/N the paper prints, its optimum has {span([ours / theirs for ours, theirs in pairs])} times the "
            "printed risk. The clusters behind the print are not known, so no closer agreement is to be expected."
        )


def _dips(numbers: Record) -> Iterable[str]:
    found = numbers.get("figure-risk", {}).get("curves", {})
    with_dip: list[str] = []
    without: list[str] = []
    for name, methods in found.items():
        if not methods["dual"]:
            continue
        (with_dip if curves.depth(methods["dual"]) >= DIP else without).append(curves.NAMES[name])
    if with_dip:
        yield (
            f"The dip of risk along |S|/N, a tenth or more below both ends, is there in {len(with_dip)} of "
            f"{len(with_dip) + len(without)} pools ({'; '.join(with_dip)})"
            + (f", and not in the others ({'; '.join(without)})." if without else ".")
        )
    elif without:
        yield f"No dip of risk along |S|/N of a tenth or more in any pool: {'; '.join(without)}."


def _weights(numbers: Record) -> Iterable[str]:
    grid = numbers.get("sensitivity", {}).get("risk", [])
    for kind in sorted({one["pool"] for one in grid}):
        places = {(one["N"], one["K"]) for one in grid if one["pool"] == kind}
        costs = []
        for place in places:
            here = {
                (one["alpha"], one["theta"]): one["risk"]
                for one in grid
                if one["pool"] == kind and (one["N"], one["K"]) == place
            }
            costs.append(here[1.0, 1.0] / min(here.values()))
        yield (
            f"The weights λ_α and λ_θ, {kind}: over {len(places)} pairs of N and K the paper's own have {span(costs, 3)} "
            "times the mean risk of the best pair on the grid."
        )


def _rounds(numbers: Record) -> Iterable[str]:
    traces = numbers.get("figure-objective", {}).get("traces", {})
    above = []
    for found in traces.values():
        if {"newton", "block"} <= set(found):
            optimum = found["newton"]["objective"][-1] - found["newton"]["gap"][-1]
            block = found["block"]["objective"]
            above.append(100.0 * curves.above_of(block[min(99, len(block) - 1)], optimum))
    if above:
        yield (
            f"After a hundred rounds the paper's rule is {span(above)} % above the certified optimum; "
            "docs/explanation/paper.md says more."
        )
    early = [
        line["over_optimum"]
        for target in ("table-logistic", "table-ridge")
        for line in _lines(numbers, target, "block")
        if "over_optimum" in line
    ]
    if early:
        yield (
            f"Its lessons are not the worse for it everywhere: stopped there, it has {span(early)} times the mean risk "
            f"that the optimum has on the same pools, less than the optimum in {sum(one < 1.0 for one in early)} of "
            f"{len(early)} cells. What the paper minimises is not the learner's risk."
        )


def _theorem(numbers: Record) -> Iterable[str]:
    if "theorem" in numbers:
        one = numbers["theorem"]
        yield (
            f"Theorem 1 as printed fails in {one['printed_broken']:,} of {one['problems']:,} random problems; the "
            f"corrected form in {one['corrected_broken']:,}; docs/explanation/paper.md has the proof."
        )


def _ridge(numbers: Record) -> Iterable[str]:
    dual, facts, pool = (_lines(numbers, "table-ridge", name) for name in ("dual", "printed", "pool"))
    if not dual:
        return
    gains = [one["risk"] / other["risk"] for one, other in zip(dual, pool, strict=True)]
    words = (
        f"Ridge regression: the paper's problem leaves {span(gains)} times the risk of all rows, with a consistency of "
        f"{span([line['consistency'] for line in dual])}"
    )
    if facts:
        pairs = zip(facts, dual, strict=True)
        words += (
            f" where {span([fact['consistency'] for fact in facts])} is printed; the printed risks are "
            f"{span([fact['risk'] / line['risk'] for fact, line in pairs])} times ours"
        )
    yield (
        f"{words}. The paper does not say how large its coefficients, its noise and its ridge are. What other "
        "values than ours give stands in docs/generated/readings.md."
    )


def _real(numbers: Record) -> Iterable[str]:
    found = numbers.get("figure-risk", {}).get("curves", {})
    for name, (fact, _) in printed.REAL.items():
        if name in found and found[name]["dual"]:
            share, risk, agreement = min(found[name]["dual"], key=lambda point: point[1])
            yield (
                f"{curves.NAMES[name]}: lowest mean risk {shown(risk)} at {100 * share:.2g} % of the rows, consistency "
                f"{shown(agreement, 2)}; printed {fact.risk} at {100 * fact.fraction:.0f} %, {fact.consistency}. The "
                "paper gives neither the scale of its columns nor Λ; here columns are standardised and Λ = 2e-4·N. What "
                "other scales give stands in docs/generated/readings.md."
            )


def _hundred(numbers: Record) -> Iterable[str]:
    for target, title in (("table-logistic", "Logistic"), ("table-ridge", "Ridge")):
        found = numbers.get(target, {}).get("a_hundred_times", {})
        if "same_size" not in found:
            continue
        words = []
        for name, where in (("same_size", "with as many rows"), ("printed_size", "at the printed |S|/N")):
            if name in found:
                ratios, fail = found[name]["cells"], found[name]["below_100"]
                words.append(
                    f"{where} {span([one['times'] for one in ratios], 3)} times, a hundred or more in "
                    f"{len(ratios) - len(fail)} of {len(ratios)} cells"
                )
                if fail:
                    named = "; ".join(f"N = {one['N']:,}, K = {one['K']}: {shown(one['times'])}" for one in fail)
                    words[-1] += f" (not at {named})"
                    proved, trials = (sum(one[what] for one in fail) for what in ("proved", "trials"))
                    if proved:
                        words[-1] += f"; there {proved} of {trials} goals are proved out of reach with so many rows"
        yield f"{title}: match's mean risk is lower than that of the paper's problem {', and '.join(words)}."
    for target, title in (("table-logistic", "logistic"), ("table-ridge", "ridge")):
        ratios = [
            cell["lines"]["oblivious"]["over_match"]
            for cell in numbers.get(target, {}).get("cells", [])
            if "over_match" in cell["lines"].get("oblivious", {})
        ]
        if ratios:
            yield (
                f"Together or apart, {title}: when every teacher matches the goal alone, the joined lessons have "
                f"{span(ratios)} times match's mean risk on the same pools."
            )


def _unreachable(numbers: Record) -> Iterable[str]:
    for cell in numbers.get("table-ridge", {}).get("no_noise", []):
        line = cell["lines"].get("match", {})
        if "over_optimum" in line:
            yield (
                f"Targets without noise, N = {cell['place']['N']:,}: the goal is proved out of reach in {line['proved']} of "
                f"{line['trials']} trials, and match has {shown(line['over_optimum'], 2)} times the mean risk of the "
                "paper's problem."
            )
    found = numbers.get("figure-risk", {}).get("curves", {})
    for name, methods in found.items():
        if name not in ("logistic", "ridge") and methods["match"] and methods["dual"]:
            match = min(risk for _, risk, _ in methods["match"])
            # Of the trials that match has: each trial has a goal of its own.
            dual = numbers["figure-risk"]["paper_beside_match"][name]
            yield (
                f"{curves.NAMES[name]}: match reaches {shown(match)}, {shown(dual / match)} times below the paper's "
                "problem, each at its own best size."
            )


def _price(numbers: Record) -> Iterable[str]:
    costs: dict[str, list[float]] = {"seconds": [], "rounds": [], "bytes": []}
    for target in ("table-logistic", "table-ridge"):
        for cell in numbers.get(target, {}).get("cells", []):
            lines = cell["lines"]
            for name, ratios in costs.items():
                if lines.get("match", {}).get(name) and lines["dual"].get(name):
                    ratios.append(lines["match"][name] / lines["dual"][name])
    if costs["seconds"]:
        yield (
            f"The price: match takes {span(costs['seconds'])} times the seconds, {span(costs['rounds'])} times the rounds "
            f"and {span(costs['bytes'])} times the bytes of the paper's problem solved by Newton, for one lesson."
        )
