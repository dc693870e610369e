"""One lesson over teachers behind a line, from settings that are data alone to files that hold no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from superteach.coordinator import metrics, named
from superteach.coordinator.federation import Federation
from superteach.coordinator.goals import Goal, check_goal
from superteach.coordinator.goals.written import goal_vector, positive_label
from superteach.coordinator.promised import Script, public_goal
from superteach.coordinator.teaching import teach
from superteach.engines.base import Engine
from superteach.engines.journal import Journal, Journalled
from superteach.engines.remote import SECONDS, Line
from superteach.errors import BadReply, GoalError, InputError, QueryRefused, SettingError, SuperteachError, TeacherLost
from superteach.labels import PositiveLabel
from superteach.lesson import Entry, Lesson, Taught, write_lesson
from superteach.line.queries import Census, Size
from superteach.mathematics.learner import Learner, fit
from superteach.mathematics.problem import Scaling
from superteach.mathematics.solvers import Newton
from superteach.organisations.agreement import Agreement, agree, end
from superteach.organisations.unfinished import Unfinished
from superteach.processes.patience import LEAST, WAIT
from superteach.settings import Settings
from superteach.types import Array, Json

ARRIVAL = 120.0
ON_LOSS = ("abort", "drop", "wait")
CIRCUMSTANCES = (
    "teachers", "goal_name", "seconds", "arrival", "on_loss", "least_teachers", "wait", "resume",
)  # fmt: skip
"""Parts of an order that do not change what is taught; the roster is looked at by itself."""


@dataclass(frozen=True)
class Order:
    """What a coordinator asks for: numbers and names that fit into JSON."""

    teachers: list[str]
    learner: str
    goal: Any
    """Contents of a goal file, the name of a goal that is fitted on all rows, or None: that fit plus noise."""
    goal_name: str = "the goal"
    goal_seed: int = 0
    C: float | None = None
    alpha: float | None = None
    intercept: bool = True
    positive: str | None = None
    """The label that coefficients speak for; None: the one that the goal names, else the larger."""
    features: list[str] | None = None
    settings: Settings = field(default_factory=lambda: Settings(rounding="alone"))
    """How the lesson is taught; a dictionary, as JSON has it, becomes `Settings`."""
    seconds: float = SECONDS
    """How long a teacher may take over one answer."""
    arrival: float = ARRIVAL
    """How long the teachers' processes for this lesson may take to start."""
    on_loss: str = "abort"
    """When a teacher is lost: "abort", "drop" it and begin anew with the others, or "wait" for it and go on."""
    least_teachers: int = LEAST
    """With fewer teachers left than this nothing is taught."""
    wait: float = WAIT
    """How many seconds to wait for a lost teacher."""
    resume: bool = False
    """Go on from the journal of the same lesson that was broken off."""

    def __post_init__(self) -> None:
        if isinstance(self.settings, dict):
            object.__setattr__(self, "settings", Settings(**self.settings))
        if self.on_loss not in ON_LOSS:
            raise SettingError(f"on_loss={self.on_loss!r} is not known; there are {', '.join(ON_LOSS)}")
        promise = self.settings.promise
        if promise != "open" and (self.resume or self.on_loss != "abort"):
            raise SettingError(
                f"--promise {promise} goes without --resume and --on-loss: a lesson that is broken off cannot go on, for "
                "asking again would release more than was promised; repeat the command without them"
            )
        if promise != "open" and self._is_fitted:
            raise GoalError(
                f"--goal {self.goal or 'perturbed'} is fitted on the teachers' rows, and --promise {promise} releases no "
                "such fit: give a goal file, such as a model fitted elsewhere"
            )
        if self.on_loss == "drop" and self.least_teachers > len(self.teachers):
            raise SettingError(
                f"--least-teachers {self.least_teachers} is more than the teachers of this lesson "
                f"({', '.join(self.teachers)}), so nobody could be dropped; give a smaller number"
            )

    @property
    def _is_fitted(self) -> bool:
        """Whether the goal is a name, and fitted on the teachers' rows."""
        return self.goal is None or isinstance(self.goal, str)

    @property
    def student(self) -> Learner:
        """The learner."""
        return Learner.of(named.build_learner(self.learner, self.C, self.alpha, self.intercept))

    @property
    def positive_label(self) -> PositiveLabel:
        """The label that was chosen as positive, or that the goal names."""
        return positive_label(self.goal, PositiveLabel(self.positive, "--positive"), self.goal_name)

    def wanted(self, agreed: Agreement) -> Array | Goal:
        """Return the goal, for the columns agreed on."""
        fitted = named.fitted_goal(self.goal or "perturbed", self.goal_seed) if self._is_fitted else None
        return fitted or goal_vector(self.goal, self.goal_name, agreed.columns, self.intercept, agreed.classes)

    def as_dict(self) -> dict[str, Any]:
        """Write it for JSON."""
        return vars(self) | {"settings": self.settings.as_dict()}

    @property
    def taught(self) -> dict[str, Any]:
        """Everything that changes what is taught, by the names of the command line: a journal's settings."""
        own = {name: value for name, value in vars(self).items() if name not in (*CIRCUMSTANCES, "settings")}
        return own | self.settings.as_options()


def conduct(
    line: Line,
    lesson: str,
    order: Order,
    folder: Path,
    watch: Callable[[Entry], None] | None = None,
    unfinished: Path | None = None,
) -> Lesson:
    """Agree, teach, let every teacher write its own rows, and write lesson.json here, and model.json where there is one.

    Sums of an open lesson are kept in the folder `unfinished` until it is over, so that it can go on from there.
    """
    if order.settings.promise != "open":
        return _under_promise(line, lesson, order, folder, watch)
    staleness = order.settings.staleness
    # Asynchronous sums depend on who was faster: there is nothing to go on from that would come out the same.
    place = None if unfinished is None or staleness else Unfinished(unfinished, order.taught)
    run = _Run(line, lesson, order, list(order.teachers), watch, place)
    if order.resume:
        if staleness:
            raise SettingError(
                f"staleness={staleness}: asynchronous lessons cannot be resumed, for nothing kept of them would come "
                "out the same; repeat the command without --resume"
            )
        if place is None:
            raise SettingError("there is no folder of unfinished lessons to resume from")
        run.head = place.find()
        run.teachers = place.roster(run.head, order.teachers)
        run.dropped = list(run.head["dropped"])
    while True:
        try:
            result = run.teach(folder)
        except TeacherLost as lost:
            if order.on_loss != "drop":
                raise run.stopped(lost) from None
            run.drop(lost)
        except SuperteachError as error:
            run.broken_off(error)
            if not run.dropped or not isinstance(error, InputError | QueryRefused):
                raise
            names = ", ".join(facts["teacher"] for facts in run.dropped)
            raise type(error)(f"the lesson began anew without {names}, lost before, and then: {error}") from None
        else:
            if run.journal is not None:
                run.journal.remove()
            return result


def _under_promise(
    line: Line, lesson: str, order: Order, folder: Path, watch: Callable[[Entry], None] | None
) -> Lesson:
    """Teach a lesson that its teachers follow by themselves: all stay to its end, or it ends."""
    student, settings, promise = order.student, order.settings, order.settings.promise
    agreed = agree(line, lesson, order.teachers, student, order.features, order.seconds, promise, order.positive_label)
    vector = check_goal(order.wanted(agreed), len(agreed.columns), student, agreed.classes)
    goal = public_goal(vector, student, len(agreed.columns), promise)
    script = Script.of(student, goal, agreed.rows, settings.for_learner(student))
    relay = agreed.relay(line, script, order.seconds)
    federation = Federation(relay, watch)
    try:
        with ThreadpoolController().limit(limits=1):  # so that the last bits are those of the teachers
            result = teach(federation, student, goal, settings, classes=agreed.classes)
        federation.stage = "the end"
        ended = end(line, agreed, order.seconds, relay.last)
        if all(facts.get("deliver") for facts in agreed.said.values()) and not settings.standardize:
            result = _delivered(result, Federation(agreed.engine(line, order.seconds), watch), script)
    except TeacherLost as lost:
        raise _ended(lost, federation, agreed, script) from None
    _write(folder, result, order, agreed, ended, agreed.left_after(script.terms))
    return result


def _delivered(result: Lesson, federation: Federation, script: Script) -> Lesson:
    """Fit the learner on the chosen rows, which every teacher's policy allows and no promise covers."""
    federation.stage = "delivery"
    size: Size = federation.sum(Census("chosen"))
    if script.learner.refuses(size.rows, size.positive):
        return result
    scaling = Scaling(script.learner.column)
    start = scaling.inside(script.goal)
    model = scaling.raw(fit(federation, script.learner, size.rows, "chosen", Newton(), start).model)
    later = (replace(entry, number=entry.number + result.rounds) for entry in federation.ledger)
    return replace(
        result,
        model=model,
        size=size.rows,
        risk=metrics.risk(model, script.goal),
        delivered=True,
        ledger=(*result.ledger, *later),
        reason=f"{result.reason}; then the learner was fitted on the chosen rows, which is outside of the promise",
    )


def _ended(lost: TeacherLost, federation: Federation, agreed: Agreement, script: Script) -> TeacherLost:
    """Return the loss with what it has cost and what to do."""
    told = ""
    if agreed.left:
        paid = federation.spent()["bytes_in"] > 0
        left = agreed.left_after(script.terms) if paid else agreed.left
        listed = ", ".join(f"{name} {one:.3g}" for name, one in left.items())
        told = f" and a payment of its own. {'This one is paid for' if paid else 'Nothing was spent'}, ε left: {listed}"
    rest = ",".join(name for name in agreed.names if name != lost.teacher)
    return type(lost)(
        lost.teacher,
        f"{lost.reason} (round {len(federation.ledger) + 1}, {federation.stage}). Under a promise a lesson cannot go on "
        f"without a teacher: repeat the command, or teach the others with --teachers {rest}; that is a new lesson with new "
        f"keys{told}",
    )


def _write(
    folder: Path,
    result: Lesson,
    order: Order,
    agreed: Agreement,
    ended: dict[str, Json],
    left: dict[str, float] | None = None,
) -> None:
    """Write lesson.json, and model.json where the learner was fitted."""
    estimator = named.build_learner(order.learner, order.C, order.alpha, order.intercept)
    described = named.learner_settings(order.learner, estimator, order.student, order.intercept)
    told: Json = {"lesson": agreed.lesson, **({"left": left} if left else {})}
    told["files"] = [
        {"teacher": name, "held": held} | {key: ended[name][key] for key in ("rows", "fault") if key in ended[name]}
        for name, held in zip(agreed.names, agreed.rows, strict=True)
    ]
    write_lesson(folder, Taught(result, agreed.classes, ()), agreed.columns, agreed.target, described, told)


@dataclass
class _Run:
    """A lesson under way: with whom, and what has happened so far."""

    line: Line
    lesson: str
    order: Order
    teachers: list[str]
    watch: Callable[[Entry], None] | None
    place: Unfinished | None
    head: Json | None = None
    """Top of the journal to go on from."""
    journal: Journal | None = None
    """Of this beginning, once it is open."""
    kept: Journal | None = None
    """The one opened last, of this beginning or of an earlier one."""
    federation: Federation | None = None
    attempts: int = 1
    dropped: list[Json] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name this beginning: another name for each, so that no answer to an earlier beginning is taken for one to this."""
        return self.lesson if self.attempts == 1 else f"{self.lesson}.{self.attempts}"

    @property
    def resumable(self) -> bool:
        """Whether --resume finds a journal."""
        return self.head is not None if self.kept is None else self.kept.there

    def teach(self, folder: Path) -> Lesson:
        """Run one beginning, up to the files, or up to a loss."""
        order = self.order
        student = order.student
        self.federation = self.journal = None
        positive = order.positive_label
        agreed = agree(self.line, self.name, self.teachers, student, order.features, order.seconds, positive=positive)
        goal = order.wanted(agreed)
        engine: Engine = agreed.engine(self.line, order.seconds)
        if self.place is not None:
            self.journal = self.kept = self._open(self.place, agreed)
            engine = Journalled(engine, self.journal)
        self.federation = Federation(engine, self.watch)
        result = teach(self.federation, student, goal, order.settings, classes=agreed.classes, columns=agreed.columns)
        self.federation.stage = "the end"
        ended = end(self.line, agreed, order.seconds)
        interruptions = [*self.dropped, *(self.journal.interruptions if self.journal else [])]
        if isinstance(engine, Journalled) and engine.asked_again:
            interruptions[-1]["asked_again"] = engine.asked_again
        result = replace(result, interruptions=tuple(interruptions))
        _write(folder, result, order, agreed, ended)
        return result

    def _open(self, place: Unfinished, agreed: Agreement) -> Journal:
        held = {
            **agreed.settled,
            "teachers": list(agreed.names),
            "target": agreed.target,
            "rows": list(agreed.rows),
            "seals": {name: str(agreed.said[name]["seal"]) for name in agreed.names},  # equal as long as the rows are
        }
        if self.head is None:
            return place.begin(held, self.dropped)
        del held["lesson"]  # each beginning has a name of its own
        journal = place.go_on(self.head, held)
        if not journal.ended_by_a_loss:
            journal.interrupt(_facts(None, "the coordinator's process ended", "", journal.last, "resumed"))
        return journal

    def _where(self) -> tuple[str, int]:
        """Return the stage and the round that was asked last."""
        if self.federation is None:
            return "agreement", 0
        number = len(self.federation.ledger)
        return self.federation.stage, number if self.federation.stage == "the end" else number + 1

    def drop(self, lost: TeacherLost) -> None:
        """Go on without a teacher: its rows are no part of the problem any more, so the lesson begins anew."""
        if self.head is not None and self.journal is None:
            # Nobody is dropped from a lesson before it has been taken up again: its journal would be lost with them.
            raise type(lost)(
                lost.teacher,
                f"{lost.reason}. The unfinished lesson is with {', '.join(self.teachers)}, and its journal stays: see that "
                f"{lost.teacher} is there and repeat the command with --resume, or repeat it without --resume to begin anew "
                "with the others",
                resumable=True,
            ) from None
        stage, number = self._where()
        spent = self.federation.spent() if self.federation else {"rounds": 0, "bytes_in": 0, "bytes_out": 0}
        spent["teachers"] = len(self.teachers)
        self.dropped.append({**_facts(lost.teacher, lost.reason, stage, number, "dropped"), **spent})
        self._note(lost.teacher, lost.reason)  # for whoever resumes this beginning, if the next one does not come about
        self.teachers = [name for name in self.teachers if name != lost.teacher]
        if len(self.teachers) < self.order.least_teachers:
            told = "; ".join(
                f"{facts['teacher']} in round {facts['round']} ({facts['stage']}: {facts['why']})"
                for facts in self.dropped
            )
            raise TeacherLost(
                lost.teacher,
                f"{lost.reason}. Lost in all: {told}. Teachers left: {', '.join(self.teachers) or 'none'}, fewer than "
                f"the {self.order.least_teachers} of --least-teachers; see that more are there and {self._go_on()}",
                self.resumable,
            ) from None
        self.head = None
        self.attempts += 1

    def broken_off(self, error: SuperteachError) -> None:
        """Note what else ended the lesson; where no teacher could mend it there is nothing to go on from."""
        if self.journal is not None and isinstance(error, InputError):
            self.journal.remove()
        else:
            self._note(None, str(error))

    def _note(self, teacher: str | None, why: str) -> None:
        """Put what broke the lesson off into its journal, where it has one."""
        if self.journal is not None:
            self.journal.interrupt(_facts(teacher, why, *self._where(), "resumed"))

    def stopped(self, lost: TeacherLost) -> TeacherLost:
        """Return the loss with where the lesson was and what to do."""
        stage, number = self._where()
        self._note(lost.teacher, lost.reason)
        # Whoever gave a bad reply was there all the time.
        mend = "its own log may say why; mend it" if isinstance(lost, BadReply) else "see that it is there again"
        return type(lost)(
            lost.teacher,
            f"{lost.reason} (round {number}, {stage}); {mend} and {self._go_on()}, or use --on-loss drop to teach "
            "without it",
            self.resumable,
        )

    def _go_on(self) -> str:
        return "repeat the command" + (" with --resume to go on from there" if self.resumable else "")


def _facts(teacher: str | None, why: str, stage: str, number: int, then: str) -> Json:
    """Describe an interruption as it stands in journal, lesson and report."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {"teacher": teacher, "why": why, "stage": stage, "round": number, "when": when, "then": then}
