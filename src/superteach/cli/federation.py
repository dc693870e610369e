"""What a coordinator types: `superteach federation` (its key, its sites) and `superteach lessons` (those it ordered)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superteach.cli.lines import say
from superteach.exceptions import SettingError

if TYPE_CHECKING:
    from superteach.federated.coordinator import Coordinator, LessonRecord
    from superteach.types import Json

_Folder = Annotated[Path, typer.Argument(help="Folder of the federation.", show_default=False)]
_Name = Annotated[str, typer.Argument(help="Beginning of the lesson's name.", show_default=False)]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    group = typer.Typer(help="Found a federation of sites on machines of their own.", no_args_is_help=True)
    group.command()(new)
    group.command("nvflare-job")(write_nvflare_job)
    app.add_typer(group, name="federation")
    group = typer.Typer(help="Lessons that were ordered: list, show, fetch or give up.", no_args_is_help=True)
    group.command("list")(list_lessons)
    for command in (show, fetch, abort):
        group.command()(command)
    app.add_typer(group, name="lessons")


def new(
    folder: Annotated[
        Path, typer.Argument(help="The coordinator's folder, new or with more sites.", show_default=False)
    ],
    site: Annotated[
        list[str] | None, typer.Option(help="Name of a site to invite; once for each.", show_default=False)
    ] = None,
    box: Annotated[
        str | None,
        typer.Option(
            help="Where documents go: a folder that all reach, or a URL (sftp://…, s3://…, webdav://…) "
            "(default: FOLDER/box).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a coordinator's key and box, and an invitation for each site; given again, it invites further sites."""
    from superteach.federated.coordinator import create_federation

    coordinator = create_federation(folder, site or [], box)
    typer.echo(f"{folder}/key        the coordinator's private key; keep it here")
    typer.echo(f"{coordinator.url}   the box; every site must be able to read and write there")
    for name in site or []:
        typer.echo(f"{folder}/invitations/{name}.json   send this to {name}, by a way nobody else can read")
    typer.echo(f"The coordinator's public key, for sites to compare:  {coordinator.public}")


def write_nvflare_job(
    folder: Annotated[Path, typer.Argument(help="New folder for the job.", show_default=False)],
    box: Annotated[Path, typer.Option(help="The coordinator's box, as the server reaches it.", show_default=False)],
) -> None:
    """Write an NVFlare job that carries documents until it is aborted."""
    from superteach.federated.nvflare import make_job

    make_job(str(box.resolve())).export_job(str(folder))
    typer.echo(f"{folder}/superteach   submit this with NVFlare: nvflare job submit, or its admin console")


def list_lessons(folder: _Folder, as_json: _AsJson = False) -> None:
    """List all lessons, the oldest first."""
    from superteach.federated.coordinator import Coordinator, LessonRecord

    lessons = [_facts(record) for record in LessonRecord.all(Coordinator(folder))]
    if as_json:
        typer.echo(json.dumps(lessons, indent=1))
        return
    for one in lessons:
        say(f"{one['lesson']}  {one['ordered']}  {one['privacy']:8}  {one['state']}")
    if not lessons:
        say("No lesson was ordered yet.")


def show(folder: _Folder, name: _Name, as_json: _AsJson = False) -> None:
    """Show one lesson: who has replied, who has refused what, who has paid."""
    coordinator, record = _find(folder, name)
    facts = _facts(record) | {"box": f"{coordinator.url}/lessons/{record.id}"}
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    say(f"Lesson {facts['lesson']}, ordered {facts['ordered']}, privacy {facts['privacy']}: {facts['state']}")
    for site in facts["sites"]:
        say(f"  {site['site']}: {site['replies']} of {facts['questions']} questions answered")
    say(record.paid)


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

    coordinator, record = _find(folder, name)
    if record.aborted:
        raise SettingError(f"lesson {record.name} was given up; {record.paid}")
    place = check_folder(out, overwrite)
    with claim(out, place):
        go_on(coordinator, record, out, place, wait, as_json)


def abort(folder: _Folder, name: _Name) -> None:
    """Give a lesson up: sites hear that it is over, and nothing is asked any more; what was paid stays paid."""
    from superteach.federated.box import open_box

    coordinator, record = _find(folder, name)
    if record.receipt is not None and not record.aborted:
        raise SettingError(f"lesson {record.name} was taught already; {record.paid}")
    record.end(open_box(coordinator.url), "aborted", "given up by the coordinator")
    say(f"Lesson {record.name} is given up. {record.paid}.")


def _find(folder: Path, name: str) -> tuple[Coordinator, LessonRecord]:
    from superteach.federated.coordinator import Coordinator, LessonRecord

    records = LessonRecord.all(coordinator := Coordinator(folder))
    matches = [one for one in records if name and one.id.startswith(name)]
    if len(matches) != 1:
        names = ", ".join(one.name for one in records) or "none"
        raise SettingError(f"{'several lessons are' if matches else 'no lesson is'} named {name!r}; there are {names}")
    return coordinator, matches[0]


def _facts(record: LessonRecord) -> Json:
    assert record.order is not None
    body, last = record.order.body, max(record.questions)
    missing = [name for name in record.questions[last].body["to"] if (last, name) not in record.replies]
    state = f"waits for {', '.join(missing)}" if missing else "can go on: superteach lessons fetch"
    return {
        "lesson": record.name,
        "ordered": record.order.content["issued"],
        "privacy": body["privacy"],
        "state": "given up" if record.aborted else "fetched" if record.fetched else state,
        "questions": len(record.questions),
        "sites": [
            {"site": seat["name"], "replies": sum(site == seat["name"] for _, site in record.replies)}
            for seat in body["roster"]
        ],
        "paid": record.payments,
    }
