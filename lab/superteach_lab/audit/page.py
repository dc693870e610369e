"""The audit as one page for a data-protection officer: what leaves, what was tried, what it found, what is not covered."""

from __future__ import annotations

from superteach.privacy import PRIVACY
from superteach.privacy.accounting import Mode
from superteach.report import Page
from superteach.report.page import code, number, strong
from superteach_lab.audit import attacks
from superteach_lab.audit.run import Audit, EpsilonReport, ModeReport
from superteach_lab.audit.subject import Finding

PLAIN = {
    "isolated": "Each owner of rows is told the goal and how many rows it shall choose. It chooses them by itself and "
    "answers “done”. The answer is the same whatever the rows are, so nobody can learn anything about a person from it.",
    "dp": "Each owner adds up numbers over its rows and adds random noise before it answers. The noise is so large that "
    "nobody can be sure from the answers whether any one person's row was there. How well anybody could guess is bounded by "
    "a number, ε: 0 means not at all, and each lesson adds to it.",
    "none": "Whoever runs the lesson can read the rows. This is for one owner, or for data that may be known. It stands "
    "here because an attack that fails everywhere would prove nothing: the same attacks succeed in this mode.",
}
TRIED = {
    attacks.OUTRIGHT: "Search everything that left the owners for whole rows.",
    attacks.CHOSEN: "Work single rows out from sums over the chosen rows.",
    attacks.MISSING: "Know all rows but one, and work that one out from the files that a lesson writes.",
    attacks.EVERYTHING: "Ask an owner every question the software knows, not only those of a lesson.",
    attacks.TABLES: "Give owners very different tables and look whether their answers differ.",
    attacks.DECLARED: "Tell from the number of rows that an owner declares whether there is one more.",
    attacks.STRETCHED: "Look for a person's row, or a question, for which the noise is too small.",
    attacks.DISGUISED: "Use up an owner's budget, disguise its table as a new one in forty ways, and ask again.",
    attacks.LESSONS: "Go on asking for twenty lessons.",
    "a usual row, from the delivered model": "Guess from the model that is handed over after a lesson whether a usual row "
    "was there.",
    "an extreme row, from the delivered model": "Guess the same of a row fifty times larger than any other.",
}
UNCOVERED = {
    "all": (
        "Rows, or a model trained on them, that an owner decides to hand over: a release of its own. How well a row can be "
        "guessed from such a model was measured above; nothing is proved about it.",
        "What everybody may know: the goal, the size of the lesson, names of columns, labels, and the number of rows that "
        "each owner declares.",
        "How long an owner takes to choose its rows. Across organisations an owner answers before it chooses.",
        "The owner's own computer: whoever can read its disk or memory reads its rows.",
    ),
    "isolated": (
        "Whether the goal was reached: only each owner learns how well its rows carry its share.",
        "Lessons in one process, where one owner has all rows: there the seed repeats the choice, and whoever knows it, the "
        "model and all other rows can tell whether one more was there. Across organisations each owner draws for itself.",
    ),
    "dp": (
        "People with several rows: the number ε holds for one row. An owner can name the column that says whose row it is, "
        "and how many rows of one person take part; a lesson then costs that many times as much.",
        "An owner that deletes its ledger and its audit log, or puts old copies of both back.",
        "Facts about all rows together: a lesson is meant to show those.",
    ),
    "none": ("Everything: single rows are shown.",),
}
FEW = 5
"""Kinds of question from which on the table of them is folded."""
_CAUGHT = {True: "yes", False: "NO", None: "not run"}


def page_of(audit: Audit) -> Page:
    """Write the audit down."""
    subject, names = audit.subject, [one.mode for one in audit.modes]
    owners = len(subject.parts)
    positive = "" if subject.positive is None else f" The positive label is {subject.positive!r}."
    page = Page(
        "Audit of privacy " + (f"“{names[0]}”" if len(names) == 1 else "modes"),
        f"{subject.name}: {subject.count:,} rows of {owners} owner{'s' * (owners != 1)}, {subject.rows.shape[1]} columns; "
        f"a lesson of {subject.budget:,} rows.{positive}",
        "Attacks were run as programs against what left the owners of rows in this run. Where they found nothing, these "
        "attacks fail and others may not: what a mode promises rests on the argument in the documentation.",
    )
    page.answer(*(_verdict(one, audit.epsilon_report) for one in audit.modes))
    if audit.epsilon_report is not None:
        _facts(page, audit.epsilon_report)
    for one in audit.modes:
        _mode(page, one)
    if audit.epsilon_report is not None:
        _epsilon(page, audit.epsilon_report)
    elif audit.unmeasured:
        page.section("The number ε, measured").prose(f"ε was not measured: {audit.unmeasured}")
    if audit.ledger is not None:
        _ledger(page, audit.ledger)
    return page


def _verdict(one: ModeReport, epsilon_report: EpsilonReport | None) -> str:
    """Say in a sentence or two what came of a mode."""
    if one.refused:
        return f"{one.mode}: no lesson was taught. {one.refused}"
    count = len(one.findings) - one.failed
    tried = f"{one.mode}: {count} attack{'s' * (count != 1)} {'were' if count != 1 else 'was'} tried"
    if one.failed:
        tried += f" ({one.failed} more could not be run, for the reasons below)"
    most = max(one.findings, key=lambda found: found.rows, default=None)
    if one.mode == "none":
        found = f"the best of them read {most.rows:,} of {most.of:,} rows" if most and most.rows else "none read a row"
        return f"{tried}; {found}. This mode does not hide rows, and says so."
    if one.rows:
        return f"{tried} and recovered {one.rows:,} rows: this mode is BROKEN."
    wrong = [found.attack for found in one.findings if found.broken]
    said = f"{tried} and recovered no row."
    if wrong:
        said += f" But something is WRONG with: {', '.join(wrong)}."
    guessed = [
        f"{found.attack.split(',')[0]} with AUC {found.auc:.2f}" for found in one.findings if found.auc is not None
    ]
    if guessed:
        told = f"from it {' and '.join(guessed)} was guessed (0.5 is a coin)"
        said += f" A model handed over afterwards is not covered: {told}."
    if one.mode == "dp" and epsilon_report is not None:
        least = max(each.epsilon for each in epsilon_report.measured)
        said += f" The measured ε is at least {least:.2g}, the claimed one {epsilon_report.mode.epsilon:g}."
        if not epsilon_report.kept:
            said += " Something is WRONG: see “The number ε, measured”."
    return said


def _facts(page: Page, epsilon_report: EpsilonReport) -> None:
    whole = max(epsilon_report.measured, key=lambda one: one.epsilon)
    caught = sum(bool(one.caught) for one in epsilon_report.variants)
    page.facts(
        [
            (
                "ε claimed",
                number(epsilon_report.mode.epsilon),
                f"at δ = {epsilon_report.mode.delta:g}, adding or removing one row",
            ),
            ("ε measured", number(whole.epsilon, 2), "at least, with 95 % confidence"),
            ("noise found", f"{epsilon_report.noise.ratio:.3f}", "times what is claimed, in real answers"),
            (
                "broken on purpose",
                f"{caught} of {len(epsilon_report.variants)}",
                "broken modes that this audit found out",
            ),
        ]
    )


def _mode(page: Page, one: ModeReport) -> None:
    section = page.section(f"Privacy “{one.mode}”")
    section.prose(strong(PRIVACY[one.mode]))
    section.prose(PLAIN[one.mode])
    if one.refused or one.transcript is None:
        section.prose(f"No lesson was taught: {one.refused}")
        return
    rows = [[name, shows, rounds, numbers] for name, shows, rounds, numbers in one.transcript.left]
    folded = "What left each owner, question by question" if len(rows) > FEW else ""
    caption = "" if folded else "What left each owner"
    section.table(["question", "what the answer shows", "rounds", "numbers"], rows, caption, folded)
    section.table(["what was tried", "what happened"], list(map(_row, one.findings)), "Attacks that were tried")
    if any(each.auc is not None for each in one.findings):
        section.note(
            "AUC: how often a guess ranks a lesson with the row above one without it; 0.5 is a coin, 1 is certainty. In "
            "brackets: the range in which the true value lies with 95 % confidence."
        )
    section.prose("What this mode does not cover:")
    section.items([*UNCOVERED[one.mode], *(UNCOVERED["all"] if one.mode != "none" else ())])


def _row(one: Finding) -> list[object]:
    said = _sentence(one.said)
    if one.of and not one.failed:
        said = f"{one.rows:,} of {one.of:,} row{'s' * (one.of != 1)} recovered. {said}"
    return [TRIED.get(one.attack, one.attack), said]


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."


def _epsilon(page: Page, epsilon_report: EpsilonReport) -> None:
    mode: Mode = epsilon_report.mode
    guarantee = mode.guarantee()
    assert guarantee is not None
    section = page.section("The number ε, measured")
    section.prose(strong(f"{guarantee['sentence']}."))
    section.prose(
        f"A claim like this can be tested. The audit made up a row that shows itself as much as a row can "
        f"({epsilon_report.row}), ran many lessons with it and without it, in the very way that real lessons run, and tried "
        "to tell them apart, knowing all other rows. How well that works proves that at least so much ε was spent. "
        "Where that is more than was claimed, the claim is false."
    )
    rows = [
        [one.what, one.claimed, one.epsilon, number(one.false_alarms, 3), number(one.misses, 3), one.runs]
        for one in epsilon_report.measured
    ]
    headings = ["questions", "ε claimed", "ε proved", "false alarms", "misses", "runs"]
    section.table(
        headings, rows, "Proved: at least, with 95 % confidence (Clopper and Pearson), through μ of Gaussian privacy"
    )
    noise = epsilon_report.noise
    section.prose(
        f"{noise.numbers:,} noisy numbers were looked at. Their noise is {noise.ratio:.3f} times what is claimed. "
        + (f"In {noise.repeated} runs it had been drawn before. " if noise.repeated else "It was never drawn twice. ")
        + ("It follows from a seed that can be guessed." if noise.guessed else "No seed that was tried gives it.")
    )
    section.table(
        ["broken on purpose", "found out", "how"],
        [[one.variant, _CAUGHT[one.caught], _sentence(one.said)] for one in epsilon_report.variants],
        "An audit that could not find out a broken mode would say nothing",
    )


def _ledger(page: Page, ledger: dict[str, float]) -> None:
    section = page.section("What the table has spent")
    section.table(
        ["", "ε"],
        [["for the table's whole life", ledger["lifetime"]], ["spent", ledger["spent"]], ["left", ledger["left"]]],
        f"From the owner's own ledger: {ledger['lessons']:.0f} lessons",
    )
    section.prose("Every row of the table is charged with every lesson; only ", code("dp"), " spends anything.")
