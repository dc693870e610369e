"""Before the first query: do all teachers hold the same columns, and the same labels?

The coordinator asks every teacher for names, kinds and a hash of them. Where the hashes differ the error says
who differs in what. Then every teacher of an open lesson hears the order of the columns, the two label values, the
positive one last, and from which number on its rows are counted. Under a promise all that is the script's (`begin`), and
what a teacher says of its rows is what its policy declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superteach.coordinator.promised import Script
from superteach.engines.remote import SECONDS, Line, Relay, Remote, reply_of
from superteach.errors import BudgetSpent, DataError, QueryRefused, listed
from superteach.labels import DEFAULT, PositiveLabel
from superteach.line import wire
from superteach.mathematics.learner import Learner
from superteach.privacy.fixed import Words
from superteach.privacy.guard import after, can_pay
from superteach.privacy.terms import PromiseTerms
from superteach.types import Json, Raw
from superteach.versions import VERSION, misfit


@dataclass(frozen=True, eq=False)
class Agreement:
    """What all teachers of a lesson have in common."""

    lesson: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    target: str
    classes: Raw | None
    rows: tuple[int, ...]
    """How many each teacher has."""
    said: dict[str, Json]
    """What each teacher said."""

    @property
    def settled(self) -> Json:
        """What every teacher hears, however the lesson goes on: its name, columns and classes."""
        classes = None if self.classes is None else self.classes.tolist()
        return {"lesson": self.lesson, "columns": list(self.columns), "classes": classes}

    @property
    def left(self) -> dict[str, float]:
        """The ε that each teacher's rows had left before the lesson, for teachers that say so."""
        return {name: float(facts["left"]) for name, facts in self.said.items() if "left" in facts}

    def left_after(self, terms: PromiseTerms) -> dict[str, float]:
        """Return the ε that each teacher's rows have left once a lesson on these terms is paid for."""
        return {name: after(left, float(self.said[name]["delta"]), terms) for name, left in self.left.items()}

    def engine(self, line: Line, seconds: float = SECONDS) -> Remote:
        """Make an engine over these teachers, for open lessons."""
        return Remote(line, self.lesson, self.names, len(self.columns), seconds)

    def relay(self, line: Line, script: Script, seconds: float = SECONDS) -> Relay:
        """Make an engine over these teachers under a promise."""
        return Relay(line, self.lesson, self.names, len(self.columns), self.rows, self._begins(script), seconds)

    def _begins(self, script: Script) -> dict[str, bytes]:
        for name, left in self.left.items() if script.terms.promise == "epsilon" else ():
            if not can_pay(left, float(self.said[name]["delta"]), script.terms):
                raise BudgetSpent(
                    f"teacher {name}'s rows have ε = {left:.4g} left, and this lesson asks for {script.terms.epsilon:g}: "
                    "ask for less with --epsilon, or teach without it (--teachers); nothing was spent"
                )
        hellos = []
        if script.terms.masked:
            for name in self.names:
                if "hello" not in self.said[name]:
                    raise QueryRefused(
                        f"teacher {name} shares no masks: its policy lists no certificates ([masks] teachers). Ask its "
                        "owner, or teach with --promise epsilon --no-masks"
                    )
                hellos.append(self.said[name]["hello"])
        common = {**self.settled, "script": script.told(), "names": list(self.names), "hellos": hellos}
        return {
            name: wire.pack("begin", {**common, "position": position}, [script.goal])
            for position, name in enumerate(self.names)
        }


def agree(
    line: Line,
    lesson: str,
    names: Sequence[str],
    learner: Learner,
    features: Sequence[str] | None = None,
    seconds: float = SECONDS,
    promise: str = "open",
    positive: PositiveLabel = DEFAULT,
) -> Agreement:
    """Settle columns and labels with every teacher, and row ids if the lesson is open; or say who differs in what."""
    told = {"lesson": lesson, "loss": learner.loss.name, "promise": promise, "version": VERSION}
    said = _ask_all(line, names, dict.fromkeys(names, wire.pack("hello", told)), "the first hello", seconds)
    for name in names:
        if odd := misfit("the coordinator", VERSION, f"teacher {name}", str(said[name].get("version"))):
            raise QueryRefused(odd)
    columns = _columns(said, features)
    classes = positive.last(_classes(said) if learner.loss.classifies else None)
    rows = tuple(int(said[name]["rows"]) for name in names)
    agreed = Agreement(lesson, tuple(names), columns, said[names[0]]["target"], classes, rows, said)
    if promise != "open":
        return agreed
    common = {**agreed.settled, "loss": learner.loss.name, "teachers": len(names)}
    messages = {
        name: wire.pack("agree", {**common, "position": position, "first_id": sum(rows[:position])})
        for position, name in enumerate(names)
    }
    _ask_all(line, names, messages, "the agreement", seconds)
    return agreed


def end(line: Line, agreement: Agreement, seconds: float = SECONDS, last: Words | None = None) -> dict[str, Json]:
    """Tell all teachers that the lesson is over; return what each says of it.

    That is how many rows it chose (in an open lesson), what it wrote, and the fault where it could write nothing. `last` is
    the last total of a script.
    """
    over = wire.pack("finish", {"lesson": agreement.lesson}, [] if last is None else [last])
    return _ask_all(line, agreement.names, dict.fromkeys(agreement.names, over), "the end", seconds)


def _ask_all(
    line: Line, names: Sequence[str], messages: dict[str, bytes], what: str, seconds: float
) -> dict[str, Json]:
    replies = line.ask(messages, seconds)
    return {name: reply_of(name, what, replies).facts for name in names}


def _columns(said: dict[str, Json], features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the feature columns: the listed ones, or the first teacher's if all have the same."""
    first, wanted = next(iter(said.items()))
    for name, theirs in said.items():
        for what, words in (("target", "a target column"), ("target_kind", "a target of kind")):
            if theirs[what] != wanted[what]:
                raise DataError(
                    f"teacher {name} has {words} {theirs[what]!r}, teacher {first} {wanted[what]!r}; all need the same"
                )
    if features is not None:
        for name, theirs in said.items():
            missing = [column for column in features if column not in theirs["columns"]]
            if missing:
                raise DataError(f"teacher {name} has no feature column {missing[0]!r}")
        return tuple(features)
    for name, theirs in said.items():
        if theirs["hash"] != wanted["hash"]:
            lacks = [column for column in wanted["columns"] if column not in theirs["columns"]]
            adds = [column for column in theirs["columns"] if column not in wanted["columns"]]
            faults = [f"{verb} {listed(odd)}" for verb, odd in (("lacks", lacks), ("adds", adds)) if odd]
            raise DataError(
                f"teacher {name} has other columns than teacher {first}: it {' and '.join(faults)}; "
                "give all teachers the same columns, or list the feature columns they share"
            )
    return tuple(wanted["columns"])


def _classes(said: dict[str, Json]) -> Raw:
    """Return the two label values over all teachers, sorted as scikit-learn sorts them."""
    values = np.unique(np.array([label for facts in said.values() for label in facts["labels"]]))
    if len(values) != 2:
        held = "; ".join(f"{name} has {facts['labels']}" for name, facts in said.items())
        raise DataError(f"all teachers together have {len(values)} label values, two are needed: {held}")
    return values
