"""The commands of a federation across organisations: federation init, serve, join, status."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from superteach.cli.request import listed_in
from superteach.errors import counted

_Kit = Annotated[Path, typer.Argument(help="Start-up kit: the folder this teacher was given.", show_default=False)]
_Home = Annotated[Path, typer.Argument(help="Folder of the federation.", show_default=False)]
_Teacher = Annotated[str, typer.Argument(show_default=False)]
_Target = Annotated[str, typer.Option(help="Column to be predicted.", show_default=False)]
_Features = Annotated[str | None, typer.Option(help="Columns to offer, separated by commas (default: all others).")]
_GIVEN = "{0}/teachers/{1}   give this folder to {1}, by a way nobody can listen to, and keep no copy"
_FATES = {
    "RUNNING": "running",
    "FINISHED:COMPLETED": "finished",
    "FINISHED:ABORTED": "aborted",
    "FINISHED:BROKEN_OFF": "broken off",
    "FINISHED:CAN_NOT_SCHEDULE": "could not begin",
}
"""What became of a lesson, in words for NVFlare's own; other ends are errors, and all else has not begun."""


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    group = typer.Typer(help="Found a federation of teachers on machines of their own.", no_args_is_help=True)
    for command in (init, declare, add, request, sign, install, revoke, renew):
        group.command()(command)
    app.add_typer(group, name="federation")
    for other in (serve, join, status):
        app.command()(other)


def init(
    folder: Annotated[Path, typer.Argument(help="New folder for all kits.", show_default=False)],
    teacher: Annotated[list[str], typer.Option(help="Name of a teacher; once for each.", show_default=False)],
    host: Annotated[str, typer.Option(help="Name under which teachers reach the server.")] = "localhost",
    port: Annotated[int, typer.Option(help="The server's port, the only one that is open.")] = 8002,
    coordinator: Annotated[
        str, typer.Option(help="Who may teach, as it stands in the certificate.")
    ] = "coordinator@superteach.local",
    days: Annotated[int, typer.Option(min=1, help="How long the root certificate is valid.")] = 360,
) -> None:
    """Make certificates and start-up kits for the server, the coordinator and each teacher."""
    from superteach.organisations.nvflare.kits import found

    project = found(folder, teacher, host, port, coordinator, days=days)
    typer.echo(f"{folder}/server        the server's kit; run  superteach serve {folder}")
    typer.echo(f"{folder}/coordinator   yours; superteach teach --federation {folder} … uses it")
    for name in project.teachers:
        typer.echo(_GIVEN.format(folder, name))
    typer.echo(f"{folder}/certificate-authority   whoever has this can make teachers and coordinators: lock it away")


def declare(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file with a teacher's rows.", show_default=False)],
    target: _Target,
    features: _Features = None,
    labels: Annotated[bool, typer.Option("--labels", help="List the two label values of a classification.")] = False,
) -> None:
    """Draft what a teacher's policy declares of its rows; look at it, then put it into policy.toml."""
    from superteach.organisations.site.rows import open_holding
    from superteach.privacy.policy import draft

    told = open_holding(file.stem, file, target, listed_in(features)).schema(labels)
    typer.echo(draft(told["rows"], told["columns"], target, told["labels"]), nl=False)


def add(home: _Home, teacher: _Teacher) -> None:
    """Make a kit for a teacher who comes later; needs the certificate-authority."""
    mark = _certificates().add(home, teacher)
    typer.echo(_GIVEN.format(home, teacher))
    typer.echo(f'each other teacher that shares masks with it adds to [masks] teachers of its policy:  "{mark}"')


def request(kit: _Kit) -> None:
    """Make a new key in a teacher's kit, and a request to sign it; the key never leaves the kit."""
    typer.echo(f"{_certificates().request(kit)}   send this file to the coordinator; the key stays here")


def sign(
    home: _Home,
    csr: Annotated[Path, typer.Argument(help="Request that a teacher made.", show_default=False)],
    days: Annotated[int, typer.Option(min=1, help="How long the certificate is valid.")] = 360,
) -> None:
    """Sign a teacher's request; the server takes its old certificate no more."""
    place, mark = _certificates().sign(home, csr, days)
    typer.echo(f"{place}   send this file back: superteach federation install KIT {place.name}")
    typer.echo(f'each other teacher that shares masks with it changes its entry in [masks] teachers to  "{mark}"')


def install(
    kit: _Kit,
    certificate: Annotated[Path, typer.Argument(help="What the coordinator signed.", show_default=False)],
) -> None:
    """Use a signed certificate, and the key that was made for it, from the next join on."""
    typer.echo(f"{kit} has certificate {_certificates().install(kit, certificate)}; join again to use it")


def revoke(home: _Home, teacher: _Teacher) -> None:
    """Send a teacher away and let it in no more; signing a request of it lets it in again."""
    _certificates().revoke(home, teacher)
    typer.echo(f"{teacher} is not let in any more; a running server sends it away within seconds")


def renew(
    home: _Home,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")] = 360,
) -> None:
    """Sign the certificates of authority, server and coordinator anew; start the server again afterwards."""
    ends = _certificates().renew(home, days)
    typer.echo(f"authority, server and coordinator hold until {ends:%Y-%m-%d}; start the server again")


def serve(home: _Home) -> None:
    """Run the coordinator's server until Ctrl-C."""
    from superteach.organisations.nvflare.start import become_server, prepare_server

    server = prepare_server(home / "server")
    typer.echo(f"serving {server}; its log is {home / 'server' / 'log.txt'} (Ctrl-C stops)")
    become_server(home / "server")


def join(
    kit: _Kit,
    data: Annotated[Path, typer.Option(help="CSV or Parquet file with this teacher's rows.", show_default=False)],
    target: _Target,
    features: _Features = None,
    policy: Annotated[
        Path | None, typer.Option(help="Policy file (default: policy.toml in the kit).", show_default=False)
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Cores for one answer; 1 gives the same last bit everywhere.")
    ] = 1,
) -> None:
    """Take part as a teacher until Ctrl-C: rows stay here, and what leaves is as the policy promises."""
    from superteach.organisations.nvflare import AUDIT
    from superteach.organisations.nvflare.preflight import reach
    from superteach.organisations.nvflare.start import become_teacher, prepare_teacher, use_alone
    from superteach.words import PROMISES

    use_alone(kit, "a teacher has joined with this kit already")
    name, server, holding, rules = prepare_teacher(kit, data, target, listed_in(features), policy, threads)
    held = f"{counted(holding.count, 'rows')} of {counted(len(holding.pool.columns), 'columns')}"
    typer.echo(f"{name}: {held} stay here; target {target!r}")
    typer.echo(f"{name}: {PROMISES[rules.promise]} No weaker promise than {rules.promise!r} is accepted.")
    typer.echo(f"{name}: every question is written to {kit / AUDIT}; chosen rows ({rules.write}) go to {rules.folder}")
    typer.echo(f"{name}: connecting to {server}")
    reach(kit, name, server, typer.echo)
    become_teacher(kit, name)


def status(
    home: _Home,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show who is connected, what runs, and what was asked."""
    from superteach.lesson import to_json
    from superteach.organisations.nvflare.session import sign_in

    with sign_in(home) as desk:
        standing = desk.standing()
    if as_json:
        stored = {"teachers": standing.project.teachers, "connected": standing.connected, "silent": standing.silent}
        sys.stdout.write(to_json(stored | {"lessons": standing.lessons}))
        return
    for name in standing.project.teachers:
        there = "does not answer" if name in standing.silent else "not connected"
        typer.echo(f"{name}: {'connected' if name in standing.connected else there}")
    for lesson in standing.lessons:
        other = "ended with an error" if lesson["status"].partition(":")[0] == "FINISHED" else "not begun yet"
        fate = _FATES.get(lesson["status"], other)
        typer.echo(f"lesson {lesson['lesson']}: {fate}, asked for {_time(lesson['when'])}")
        if "rounds" in lesson:
            asked = ", ".join(f"{query} × {times}" for query, times in lesson["queries"].items()) or "nothing yet"
            typer.echo(f"  promise {lesson['promise']}, {lesson['stage']}, round {lesson['rounds']}; asked: {asked}")
            if lesson["waiting"]:
                typer.echo(f"  waits for {', '.join(lesson['waiting'])}")


def _certificates() -> ModuleType:
    """Import what makes certificates, or name the command that installs it."""
    from superteach.organisations.nvflare import require

    require()
    return import_module("superteach.organisations.nvflare.certificates")


def _time(when: str) -> str:
    """Write a moment as a person does, in UTC."""
    try:
        return f"{datetime.fromisoformat(when).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return when
