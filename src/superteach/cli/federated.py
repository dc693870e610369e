"""`superteach teach --box`: order a lesson, wait for the sites, fetch what comes of it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from superteach.cli import screen
from superteach.cli.folder import new_folder, page_of_stored
from superteach.cli.goal import FROM_DATA, called, check_goal_name, is_file, load_goal, make_goal, positive_unsaid
from superteach.cli.lines import warn
from superteach.cli.request import Request, listed_in
from superteach.coordinator import named, shares
from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.exceptions import GoalError, SettingError
from superteach.federated.box import Box, Pause, open_box
from superteach.federated.coordinator import Coordinator, LessonRecord, Terms, agree
from superteach.federated.documents import Document
from superteach.federated.engine import SOON, DocumentEngine, Unanswered
from superteach.goals import check_goal
from superteach.goals.base import Named, in_words, positive_label
from superteach.io.frames import PositiveLabel
from superteach.learner import Learner
from superteach.lesson import Lesson, Taught, to_json, write_lesson
from superteach.packages import VERSION
from superteach.privacy import PRIVACY
from superteach.protocol.queries import Census
from superteach.settings import Settings
from superteach.types import Array, Json

if TYPE_CHECKING:
    from superteach.goals import Goal

WAIT = 600.0
"""Seconds without any reply after which a command gives up waiting; the lesson goes on."""
JOINING = 10.0
"""Seconds for which sites are waited for that were invited and have not joined; then the lesson is without them."""
ROUND = 0.1
"""Seconds of a round in a rehearsal."""
ASKED = ("learner", "goal", "goal_seed", "C", "alpha", "intercept", "positive", "features", "staleness", "teachers")
"""Parts of a request that change what is taught, beside the settings."""


def run(request: Request, place: Path) -> None:
    """Check what can be checked here, order the lesson or go on with it, write the folder, show the result."""
    settings = request.check_settings(rounding="alone", privacy="isolated")
    check_goal_name(request.goal)
    if request.files or request.target is not None or request.owner is not None or request.encoding != "utf-8":
        raise SettingError(
            "--box takes no files, no --target, no --owner and no --encoding: sites have rows of their own"
        )
    if request.costs is not None or request.measured:
        raise SettingError("--costs and --measured are for files: across organisations nobody here has the rows")
    assert request.box is not None
    coordinator = Coordinator(request.box)
    box = open_box(coordinator.url)
    wait = 0.0 if request.no_wait else WAIT if request.wait is None else request.wait
    asked = _asked(request, settings)
    student = _student(request)
    lesson = None if settings.staleness else _unfinished(coordinator, asked)
    if lesson is None:
        members = _members(coordinator, box, listed_in(request.teachers), wait)
        positive = positive_label(
            asked["goal_file"], PositiveLabel(request.positive, "--positive"), f"goal {request.goal!r}"
        )
        terms = agree(members, student, listed_in(request.features), settings.privacy, positive)
        if request.dry_run:
            _rehearse(request, terms, student, settings)
            return
        lesson = LessonRecord(coordinator, asked)
    else:
        assert lesson.order is not None
        terms = Terms.of_order(lesson.order.body)
        if request.dry_run:
            raise SettingError(
                f"lesson {lesson.name} of the same settings is under way: give the command without --dry-run"
            )
        warn(f"goes on with lesson {lesson.name}, of which {len(lesson.replies)} replies are here")
    finish(request, place, coordinator, box, lesson, terms, wait)


def fetch(coordinator: Coordinator, lesson: LessonRecord, out: Path, place: Path, wait: float, as_json: bool) -> None:
    """Go on with a lesson as it was asked for, up to its result in a folder."""
    assert lesson.order is not None
    stored = {name: lesson.request[name] for name in ASKED}
    request = Request(out=out, box=coordinator.folder, as_json=as_json, **lesson.request["given"], **stored)
    finish(request, place, coordinator, open_box(coordinator.url), lesson, Terms.of_order(lesson.order.body), wait)


def finish(
    request: Request, place: Path, coordinator: Coordinator, box: Box, lesson: LessonRecord, terms: Terms, wait: float
) -> None:
    """Teach, write the folder, tell the sites, show the result; a lesson that waits is named and goes on later."""
    settings = request.check_settings(rounding="alone", privacy="isolated")
    student = _student(request)
    wanted = _goal(request, lesson.request, terms, student, settings)
    said, size, price = in_words(called(wanted, request.goal, lesson.request["goal_file"])), 0, None
    if settings.privacy != "none":
        wanted = shares.public_goal(wanted, student, len(terms.columns), settings.privacy, terms.classes)
        size = shares.check(settings, student, tuple(seat["rows"] for seat in terms.roster), len(wanted))
    if settings.privacy == "dp":
        price = {"epsilon": float(settings.epsilon), "delta": float(settings.delta)}
    with screen.progress("wait for sites") as (watch, _):
        about = settings.privacy, size, price
        engine = DocumentEngine(box, lesson, terms, student.as_dict(), about, VERSION, wait, warn)
        federation = Federation(engine, watch)
        try:
            result = teach(
                federation, student, Named(wanted, said), settings, classes=terms.classes, columns=terms.columns
            )
            rows = lesson.asked_rows() or _counted(engine, result)
        except Unanswered as error:
            if not request.no_wait and wait > 0.0:
                raise
            screen.say(f"Lesson {lesson.name} is ordered; {error}.")
            screen.say(
                f"Fetch it with  superteach lessons fetch {coordinator.folder} {lesson.name} --out {request.out}"
            )
            return
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_left(lesson)) from None
    lesson.end(box, "taught")
    files = [
        {"teacher": seat["name"], "held": seat["rows"], "rows": rows[seat["name"]]}
        | ({"paid": lesson.payments[seat["name"]]} if seat["name"] in lesson.payments else {})
        for seat in terms.roster
    ]
    described = named.learner_settings(request.learner, request.C, request.alpha, request.intercept)
    with new_folder(place) as folder:
        taught = Taught(result, terms.classes, ())
        more = {"lesson": lesson.id, "files": files}
        stored = write_lesson(folder, taught, terms.columns, terms.target, described, more)
        page_of_stored(stored, result).write(folder / "report.html")
    assert lesson.folder is not None
    (lesson.folder / "fetched").touch()
    _show(request, stored, result, lesson)


def _left(lesson: LessonRecord) -> str:
    """Say how a lesson stands that is interrupted."""
    if lesson.order is None:
        return "nothing was ordered"
    return f"lesson {lesson.name} stays ordered, and the same command goes on with it. {lesson.paid}"


def _asked(request: Request, settings: Settings) -> Json:
    """Write down what is asked for, so that the lesson can go on without this command; equal requests have one digest."""
    asked: Json = {name: getattr(request, name) for name in ASKED}
    stored = load_goal(request.goal) if is_file(request.goal) else None
    asked |= {"goal_file": stored.tolist() if isinstance(stored, np.ndarray) else stored, "given": request.settings}
    if request.goal.startswith(FROM_DATA):
        asked["goal_data"] = hashlib.sha256(Path(request.goal.removeprefix(FROM_DATA)).read_bytes()).hexdigest()
    text = json.dumps({**asked, "all_settings": settings.as_dict()}, sort_keys=True)
    return {**asked, "digest": hashlib.sha256(text.encode()).hexdigest()}


def _student(request: Request) -> Learner:
    return named.build_student(request.learner, request.C, request.alpha, request.intercept)


def _unfinished(coordinator: Coordinator, asked: Json) -> LessonRecord | None:
    """Find a lesson that the same request began and nobody has fetched or given up."""
    same = [one for one in LessonRecord.all(coordinator) if one.request["digest"] == asked["digest"]]
    return next((one for one in reversed(same) if not one.fetched and not one.aborted), None)


def _members(coordinator: Coordinator, box: Box, wanted: list[str] | None, wait: float) -> list[Document]:
    """Find the sites to teach with; wait, and say for whom, where some have not joined yet."""
    started, said, pause = time.monotonic(), set[str](), Pause(box.patience)

    def once(text: str) -> None:
        if text not in said:
            warn(text)
        said.add(text)

    while True:
        members, strange = coordinator.members(box)
        for text in strange:
            once(text)
        invited, waited = coordinator.invited(), time.monotonic() - started
        everybody = sorted({*members, *(name for name in invited if coordinator.sites.get(name) != "revoked")})
        names = everybody if wanted is None else wanted
        if unknown := [name for name in names if name not in members and name not in invited]:
            listed = ", ".join(invited) or "nobody"
            raise SettingError(f"--teachers names {unknown[0]!r}, which was never invited; invited are {listed}")
        if not names:
            raise SettingError(f"nobody is invited: superteach federation new {coordinator.folder} --site NAME")
        missing = [name for name in names if name not in members]
        revoked = [name for name in missing if coordinator.sites.get(name) == "revoked"]
        enough = wanted is None and members and waited > min(wait, JOINING)
        if not missing or enough:
            for name in missing:
                warn(f"{name} was invited and has not joined; the lesson is without it")
            return [members[name] for name in names if name in members]
        if revoked:
            raise SettingError(f"sent away in federation.toml: {', '.join(revoked)}; name others with --teachers")
        if waited > wait:
            raise SettingError(f"not there yet: {', '.join(missing)}; its owner runs  superteach site run FOLDER")
        if waited > SOON:
            once(f"waiting for {', '.join(missing)} to join")
        pause(False)


def _goal(request: Request, asked: Json, terms: Terms, student: Learner, settings: Settings) -> Array | Goal:
    """Return the goal, for the columns agreed on."""
    stored, numeric = asked["goal_file"], not student.loss.classifies
    if stored is not None:
        from superteach.goals.base import goal_vector

        where = f"goal file {request.goal!r}"
        values = np.array(stored, dtype=np.float64) if isinstance(stored, list) and stored else stored
        vector = goal_vector(values, where, terms.columns, request.intercept, terms.classes)
        return check_goal(vector, len(terms.columns), student, terms.classes)
    if settings.privacy != "none" and not request.goal.startswith(FROM_DATA):
        raise GoalError(
            f"--goal {request.goal} is fitted on the sites' rows, and --privacy {settings.privacy} releases no such fit: "
            "give a goal file, such as a model fitted elsewhere, or from-data:FILE with rows of your own"
        )
    make = partial(make_goal, request.goal, request.goal_seed, terms.columns, terms.target, numeric, request.intercept)
    return make(terms.classes)


def _counted(engine: DocumentEngine, result: Lesson) -> dict[str, int]:
    """Ask how many rows each site chose, where everything may be asked."""
    replies = engine.gather(Census("chosen"), result.rounds + 1)
    return {name: int(reply[0]) for name, reply in zip(engine.names, replies, strict=True)}


def _rehearse(request: Request, terms: Terms, student: Learner, settings: Settings) -> None:
    """Say what the lesson will take; nobody is asked anything."""
    from superteach.cli.teach import rehearse, show_rehearsal

    wanted = _goal(request, _asked(request, settings), terms, student, settings)
    rows = sum(seat["rows"] for seat in terms.roster)
    facts = rehearse(terms.names, len(terms.columns), rows, student, wanted, replace(settings), ROUND)
    show_rehearsal(facts, request.as_json)


def _show(request: Request, stored: Json, result: Lesson, lesson: LessonRecord) -> None:
    """Show the result."""
    if request.as_json:
        sys.stdout.write(to_json(stored | {"out": str(request.out)}))
        return
    if result.delivered:
        screen.result(result, [entry["rows"] for entry in stored["files"]])
    elif result.positive is not None:
        screen.say(f"Scores above 0 mean {result.positive!r}, the positive label.")
    if unsaid := positive_unsaid(request.goal, request.positive, result.positive):
        screen.say(unsaid)
    screen.say(f"Privacy {result.privacy}: {PRIVACY[result.privacy]} {lesson.paid}.")
    screen.say(screen.sentence(result))
    if not result.delivered:
        each = ", ".join(f"{entry['teacher']} {entry['rows']:,}" for entry in stored["files"])
        screen.say(f"Rows asked for: {each}. Each site alone knows how well its rows carry its share.")
    what = "Model, ledger" if result.delivered else "Ledger"
    screen.say(f"{what} and a report to read (report.html) are in {request.out}; every site has its own rows.")
