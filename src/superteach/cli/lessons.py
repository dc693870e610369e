"""`superteach lessons`: what became of the lessons that a coordinator ordered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superteach.cli.lines import say
from superteach.exceptions import SettingError

if TYPE_CHECKING:
    from superteach.federated.engine import Lesson
    from superteach.federated.federation import Home
    from superteach.types import Json

_Folder = Annotated[Path, typer.Argument(help="Folder of the federation.", show_default=False)]
_Name = Annotated[str, typer.Argument(help="Beginning of the lesson's name.", show_default=False)]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    group = typer.Typer(help="Lessons that were ordered: list, show, fetch or give up.", no_args_is_help=True)
    group.command("list")(list_lessons)
    for command in (show, fetch, abort):
        group.command()(command)
    app.add_typer(group, name="lessons")


def list_lessons(folder: _Folder, as_json: _AsJson = False) -> None:
    """List all lessons, the oldest first."""
    from superteach.federated.engine import Lesson
    from superteach.federated.federation import Home

    found = [_facts(lesson) for lesson in Lesson.all(Home(folder))]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for one in found:
        say(f"{one['lesson']}  {one['ordered']}  {one['privacy']:8}  {one['state']}")
    if not found:
        say("No lesson was ordered yet.")


def show(folder: _Folder, name: _Name, as_json: _AsJson = False) -> None:
    """Show one lesson: who has replied, who has refused what, who has paid."""
    from superteach.federated.box import open_box
    from superteach.federated.federation import Home

    home = Home(folder)
    lesson = _find(home, name)
    facts = _facts(lesson) | {"box": f"{home.url}/lessons/{lesson.id}"}
    open_box(home.url)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    say(f"Lesson {facts['lesson']}, ordered {facts['ordered']}, privacy {facts['privacy']}: {facts['state']}")
    for seat in facts["sites"]:
        say(f"  {seat['site']}: {seat['replies']} of {facts['questions']} questions answered")
    say(lesson.paid)


def fetch(
    folder: _Folder,
    name: _Name,
    out: Annotated[Path, typer.Option(help="Folder for the result.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a result that is there.")] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds without any reply after which to give up waiting.")
    ] = 0.0,
    as_json: _AsJson = False,
) -> None:
    """Go on with a lesson, up to its result; a lesson that was paid for can always be fetched, and as often as wanted."""
    from superteach.cli.federated import fetch as go_on
    from superteach.cli.folder import check_folder, claim
    from superteach.federated.federation import Home

    home = Home(folder)
    lesson = _find(home, name)
    if lesson.aborted:
        raise SettingError(f"lesson {lesson.name} was given up; {lesson.paid}")
    place = check_folder(out, overwrite)
    with claim(out, place):
        go_on(home, lesson, out, place, wait, as_json)


def abort(folder: _Folder, name: _Name) -> None:
    """Give a lesson up: sites hear that it is over, and nothing is asked any more; what was paid stays paid."""
    from superteach.federated.box import open_box
    from superteach.federated.federation import Home

    home = Home(folder)
    lesson = _find(home, name)
    if lesson.receipt is not None and not lesson.aborted:
        raise SettingError(f"lesson {lesson.name} was taught already; {lesson.paid}")
    lesson.end(open_box(home.url), "aborted", "given up by the coordinator")
    say(f"Lesson {lesson.name} is given up. {lesson.paid}.")


def _find(home: Home, name: str) -> Lesson:
    from superteach.federated.engine import Lesson

    every = Lesson.all(home)
    found = [one for one in every if name and one.id.startswith(name)]
    if len(found) != 1:
        names = ", ".join(one.name for one in every) or "none"
        raise SettingError(f"{'several lessons are' if found else 'no lesson is'} named {name!r}; there are {names}")
    return found[0]


def _facts(lesson: Lesson) -> Json:
    assert lesson.order is not None
    body, questions = lesson.order.body, len(lesson.questions)
    replied = {seat["name"]: sum(site == seat["name"] for _, site in lesson.replies) for seat in body["roster"]}
    last = max(lesson.questions)
    missing = [name for name in lesson.questions[last].body["to"] if (last, name) not in lesson.replies]
    state = f"waits for {', '.join(missing)}" if missing else "can go on: superteach lessons fetch"
    state = "given up" if lesson.aborted else "fetched" if lesson.fetched else state
    return {
        "lesson": lesson.name,
        "ordered": lesson.order.content["issued"],
        "privacy": body["privacy"],
        "state": state,
        "questions": questions,
        "sites": [{"site": name, "replies": count} for name, count in replied.items()],
        "paid": lesson.payments,
    }
