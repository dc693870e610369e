"""The audit as one page that a data-protection officer can read: what was promised, what left, what was tried."""

from __future__ import annotations

from superteach.report import Page
from superteach.report.markup import Markup, number, percent, size, strong
from superteach.words import PROMISES
from superteach_lab.audit.recovery import Found
from superteach_lab.audit.run import Accounted, Audit, Audited

PLAIN = {
    "closed": "Each owner was told a goal and a number, and chose rows alone. Nobody heard anything about the rows.",
    "epsilon": "Sums over rows left their owners with noise added, so large that nobody can be sure from them whether any "
    "one row was there. How well anybody could guess is bounded by a number, ε, for everything ever asked about the row.",
    "masked": "Sums left their owners under masks that cancel in the total. Nobody sees one owner's numbers; the totals "
    "themselves are exact, and what can be worked out from exact totals is not prevented.",
    "open": "Whoever runs the lesson can read the rows. This is for one owner, or for data that may be known.",
}
UNCOVERED = {
    "all": (
        "Rows or a model that an owner decides to hand over. That is a release of its own, beside this promise.",
        "The goal, the number of rows asked for, the names of columns, the two label values and how many rows each owner "
        "declares: these are public.",
        "How long an owner takes to answer.",
        "The owner's own computer: whoever can read its disk or memory reads its rows.",
    ),
    "epsilon": (
        "More colluding owners than the lesson allows for (a third of them, unless said otherwise): their share of the "
        "noise would be known. Whoever has copies of owners' keys, as the founder of a federation may, is all of them.",
        "An owner who puts back an old copy of the ledger, or deletes it, makes it forget what was spent.",
        "A person with several rows: the number holds for one row; for m rows it is up to m times as large. A row that two "
        "owners hold is paid for by each of them, and one whose values change counts as new, unless a column names records.",
        "That some rows took part in earlier lessons: how much ε is left is told when a lesson is announced.",
        "Facts about all rows together: a lesson is meant to show those.",
    ),
    "masked": (
        "Totals over two groups that differ by one row or one owner: their difference is that row, or that owner's sums. "
        "The attacks above did it.",
        "All owners but one working together, or whoever has copies of their keys: they can subtract their own numbers "
        "from the total.",
        "Goals that are picked to read rows: with a goal far away totals are sums in which few rows weigh anything. The "
        "attacks above did it, with honest owners and the published script.",
        "A coordinator or an owner who lies: wrong totals lead all owners to other prices, and the exact totals there are "
        "heard by all. The attacks above did it. Promise masks to owners who trust each other and the coordinator.",
    ),
    "closed": ("Nothing is said about whether the goal was reached; that is the price of this promise.",),
    "open": ("Everything: single rows are shown.",),
}
NAMES = {
    "rows shown outright": "Read rows that are shown one by one",
    "curvatures of chosen rows": "Work rows out from sums over the chosen ones",
    "curvatures of all rows": "Work rows out from sums over all rows",
    "totals with and without a row": "Subtract the totals of two lessons that differ by one row",
    "budgets n and n + 1": "Subtract lessons of n and of n + 1 rows",
    "totals with and without a teacher": "Subtract the totals of two lessons that differ by one owner",
    "a huge sparsity": "Ask whether a known row is there, by a count",
    "one row with all the weight": "Ask a question in which one row has all the weight",
    "keep fewer and fewer rows": "Choose fewer and fewer rows, until one is left",
    "counts of ranks": "Count scores until one row is left",
    "the script by hand, caps in other units": "Ask the script's own questions, with limits removed",
    "the script by hand, a negative share": "Ask the script's own questions, with the account falsified",
    "a fellow teacher that tells small lies": "Tell small lies as one of the owners, and listen where they lead",
    "a fellow teacher that tells large lies": "Tell large lies as one of the owners, and listen where they lead",
    "a fellow teacher that tells huge lies": "Tell huge lies as one of the owners, and listen where they lead",
    "a fellow teacher that tells lies": "Tell lies as one of the owners, and listen where they lead",
    "a fellow teacher that leads prices to single rows": "Lie as one of the owners, so that all choose a single row",
    "was this row there?": "Guess whether a known row took part, knowing all other rows",
    "20 lessons": "Go on for 20 lessons",
}


_CAUGHT = {True: "yes", False: "NO", None: "not run"}


def page_of(audit: Audit) -> Page:
    """Write the audit down."""
    subject, one = audit.subject, audit.promises[0] if len(audit.promises) == 1 else None
    title = f"Audit of promise “{one.promise}”" if one else f"Audit of {len(audit.promises)} promises"
    owners = len(subject.parts)
    positive = "" if subject.positive is None else f" The positive label is {subject.positive!r}."
    page = Page(
        title,
        f"{subject.name}: {subject.count:,} rows of {owners} owners, {subject.rows.shape[1]} columns; "
        f"a lesson of {subject.budget:,} rows.{positive}",
        "Attacks were run as programs against what left the owners of rows in this run. Where they recovered nothing, these "
        "attacks fail and others may not; the promise itself rests on the argument in the documentation.",
    )
    page.answer(*(_verdict(told, audit.accounted) for told in audit.promises))
    if audit.accounted is not None:
        _facts(page, audit.accounted)
    for told in audit.promises:
        _promise(page, told)
    if audit.accounted is not None:
        _epsilon(page, audit.accounted)
    elif audit.unmeasured:
        page.section("The number ε, measured").prose(f"ε was not measured: {audit.unmeasured}")
    if audit.ledger is not None:
        _ledger(page, audit.ledger)
    return page


def _verdict(told: Audited, accounted: Accounted | None) -> Markup | str:
    """What came of one promise, in a sentence or two."""
    if told.refused:
        return f"{told.promise}: no lesson was taught. {told.refused}"
    tried = f"{len(told.found) - told.failed} attacks were tried"
    if told.failed:
        tried += f" ({told.failed} more could not be run, for the reasons below)"
    if told.promise in ("closed", "epsilon"):
        kept = "and recovered no row." if not told.rows else f"and recovered {told.rows:,} rows: the promise is BROKEN."
        more = ""
        if told.promise == "epsilon" and accounted is not None:
            measured, claimed = accounted.measured.epsilon, accounted.terms.epsilon
            more = f" The measured ε is at least {measured:.2g}, the promised one {claimed:g}."
            if not accounted.kept:
                more += " Something is WRONG: see “The number ε, measured”."
        return f"{told.promise}: {tried} {kept}{more}"
    most = max(told.found, key=lambda found: found.rows)
    worst = f"the best of them recovered {most.rows:,} of {most.of:,} rows"
    return f"{told.promise}: {tried}; {worst if most.rows else 'none recovered a row'}. {_honest(told.promise)}"


def _honest(promise: str) -> str:
    if promise == "masked":
        return "This promise hides each owner's numbers, not what exact totals show."
    return "This promise does not hide rows, and says so."


def _facts(page: Page, accounted: Accounted) -> None:
    measured = accounted.measured
    page.facts(
        [
            ("ε promised", number(accounted.terms.epsilon), f"at δ = {accounted.terms.delta:g}, for one row"),
            ("ε measured", number(measured.epsilon, 2), f"at least, with {measured.level:.0%} confidence"),
            ("noise found", percent(accounted.noise.ratio), "of the least that is needed"),
            (
                "broken on purpose",
                f"{sum(bool(one.caught) for one in accounted.variants)} of {len(accounted.variants)}",
                "broken promises that this audit found out",
            ),
        ]
    )


def _promise(page: Page, told: Audited) -> None:
    section = page.section(f"Promise “{told.promise}”")
    section.prose(strong(PROMISES[told.promise]))
    section.prose(PLAIN[told.promise])
    if told.refused or told.heard is None:
        section.prose(f"No lesson was taught: {told.refused}")
        return
    left = told.heard.transcript.left()
    sent = [one for one in left if one.numbers]
    if sent:
        rows = [[one.query, one.shows, one.rounds, one.numbers, size(one.bytes)] for one in sent]
        total = ["all", "", *(sum(values) for values in zip(*((one.rounds, one.numbers) for one in sent), strict=True))]
        rows.append([*total, size(sum(one.bytes for one in sent))])
        section.table(["question", "what the answer shows", "rounds", "numbers", "bytes"], rows, "What left each owner")
    silent = [one.query for one in left if not one.numbers]
    if silent:
        section.prose("Answered with an acknowledgement and no number: ", ", ".join(silent), ".")
    headings = ["attack", "rows recovered", "questions", "AUC", "advantage", "allowed", "what happened"]
    section.table(headings, [_row(one) for one in told.found], "Attacks tried")
    section.note(
        "AUC: how often a guess puts a lesson with the row above one without it (0.5 is a coin). Advantage: hits less false "
        "alarms (0 is a coin, 1 is certainty); allowed: the most that the promise lets anybody have."
    )
    section.prose("What this promise does not cover:")
    section.items([*UNCOVERED[told.promise], *(UNCOVERED["all"] if told.promise != "open" else ())])


def _row(one: Found) -> list[object]:
    recovered = "not run" if one.failed else f"{one.rows:,} of {one.of:,}" if one.of else "–"
    if one.rows and one.error is not None:
        recovered += f" (error {one.error:.0e})"
    return [
        NAMES.get(one.attack, one.attack),
        recovered,
        one.questions,
        one.auc,
        one.advantage,
        one.allowed,
        _sentence(one.said),
    ]


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."


def _epsilon(page: Page, accounted: Accounted) -> None:
    measured, terms = accounted.measured, accounted.terms
    section = page.section("The number ε, measured")
    section.prose(
        f"The promised ε = {terms.epsilon:g} bounds how much the chance of anything that is seen can change when one row is "
        f"added or removed (a factor of e^ε, but for a chance of δ = {terms.delta:g}). The audit chose a row that shows "
        f"itself most; by the formulas it spends ε = {accounted.of_row:.3g}. It then drew {measured.runs:,} lessons with "
        f"and without it, and tried to tell them apart, knowing all other rows and what was asked."
    )
    section.table(
        ["", "value"],
        [
            ["ε promised", terms.epsilon],
            [f"ε proved to be spent, at least ({measured.level:.0%} confidence)", measured.epsilon],
            ["false alarms", measured.false_alarms],
            ["misses", measured.misses],
            ["AUC", measured.auc],
        ],
        "Measured through μ of Gaussian differential privacy, with Clopper and Pearson's bounds",
    )
    section.prose(
        f"In the lesson itself {accounted.noise.numbers:,} noisy numbers left the owners. Their noise was "
        f"{accounted.noise.ratio:.3f} times the least that the promise needs (above 1 where noise of owners who might "
        "collude is added on top)."
    )
    section.table(
        ["promise broken on purpose", "found out", "how"],
        [[one.variant, _CAUGHT[one.caught], _sentence(one.said)] for one in accounted.variants],
        "An audit that could not find out a broken promise would say nothing",
    )


def _ledger(page: Page, ledger: dict[str, float]) -> None:
    section = page.section("What the rows have spent")
    section.table(
        ["", "ε"],
        [
            ["for the rows' life", ledger["lifetime"]],
            ["spent at most, by any one row", ledger["spent"]],
            ["left", ledger["left"]],
        ],
        f"From the owner's own ledger: {ledger['lessons']:.0f} lessons, {ledger['notes']:.0f} releases outside ε",
    )
