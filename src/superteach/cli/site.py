"""`superteach site`: what the owner of rows types. new, run, once, review, approve, status."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superteach.cli.lines import say, warn
from superteach.exceptions import QueryRefused, SettingError, SuperteachError, reason_of
from superteach.io.atomic import hold, write_durably, write_text

if TYPE_CHECKING:
    from superteach.federated.box import Box
    from superteach.federated.site import Site

_Folder = Annotated[Path, typer.Argument(help="The site's folder.", show_default=False)]
LINGER = 20.0
"""Seconds for which the process that looked at rows stays: a lesson that comes meanwhile finds them read (100 MB)."""


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    group = typer.Typer(help="Take part with rows of your own, which stay on this machine.", no_args_is_help=True)
    for command in (new, run, once, review, approve, status):
        group.command()(command)
    app.add_typer(group, name="site")


def new(
    folder: Annotated[Path, typer.Argument(help="New folder for the site.", show_default=False)],
    invitation: Annotated[Path, typer.Option(help="Invitation from the coordinator.", show_default=False)],
    data: Annotated[Path, typer.Option(help="CSV or Parquet file with this site's rows.", show_default=False)],
    target: Annotated[str, typer.Option(help="Column to be predicted.", show_default=False)],
    features: Annotated[
        str | None, typer.Option(help="Columns to offer, separated by commas (default: all others).")
    ] = None,
    box: Annotated[
        str | None, typer.Option(help="The box, as this machine reaches it (default: as the invitation names it).")
    ] = None,
) -> None:
    """Make a site's key and a draft of its policy, in answer to an invitation; nothing leaves yet."""
    from superteach.cli.request import listed_in
    from superteach.federated.box import open_box
    from superteach.federated.documents import own_key, public_of, read
    from superteach.federated.rows import read_table
    from superteach.privacy.policy import draft, read_policy, template

    if folder.exists():
        raise SettingError(f"{str(folder)!r} is there already: name a new folder")
    try:
        document = read(invitation.read_bytes())
    except OSError as error:
        raise SettingError(f"invitation {str(invitation)!r} cannot be read: {reason_of(error)}") from None
    except SuperteachError as error:
        raise SettingError(f"{str(invitation)!r} is no invitation: {error}") from None
    if document.kind != "invitation":
        raise SettingError(f"{str(invitation)!r} is no invitation, but a document of kind {document.kind}")
    place = box or document.body["box"]
    open_box(place)
    name, listed = document.body["site"], listed_in(features)
    table = read_table(name, data, target, listed)
    policy = template([document.author]) + draft(table.count, table.pool.columns, target, table.labels())
    settings = {"name": name, "data": str(data.resolve()), "target": target, "box": place}
    if listed is not None:
        settings["features"] = listed
    folder.mkdir(mode=0o700, parents=True)
    write_durably(folder / "invitation.json", document.data)
    write_text(folder / "policy.toml", policy)
    lines = [f"{entry} = {json.dumps(value, ensure_ascii=False)}\n" for entry, value in settings.items()]
    write_text(folder / "site.toml", "".join(lines))
    key = public_of(own_key(folder))
    table.check(read_policy(folder / "policy.toml"))
    say(f"Documents of the federation {document.body['federation']} will travel through {place}.")
    say(f"{name}: {table.count:,} rows with {len(table.pool.columns)} columns stay in {data}.")
    say(f"Read {folder / 'policy.toml'}, which says what may leave, and change it as you like. Then run")
    say(f"    superteach site run {folder}")
    say(f"This site's public key is  {key}")
    say(f"It will answer the coordinator {document.author}; compare that with what the coordinator says.")


def run(
    folder: _Folder,
    every: Annotated[float | None, typer.Option(min=0.01, help="Seconds between two looks, at most.")] = None,
) -> None:
    """Look into the box until Ctrl-C, and answer as the policy allows."""
    from superteach.federated.box import LocalBox, Pause

    with _alone(folder) as site:
        box = _reach(site)
        pause = Pause((box.patience[0], box.patience[1] if every is None else every))
        say(f"{site.name}: looks into {site.settings['box']}; Ctrl-C stops")
        site.write_status()
        signal.signal(signal.SIGTERM, lambda *_: _stop())
        while True:
            news = _look(site, box)
            if _has_work(site):
                if isinstance(box, LocalBox) and hasattr(os, "fork"):
                    site = _in_child(site, box)
                else:
                    serve(site, box, 0.0)
                news = True
            if news:
                site.write_status()
            pause(news)


def once(folder: _Folder) -> None:
    """Look into the box once and answer what is there: for cron."""
    with _alone(folder) as site:
        box = _reach(site)
        _look(site, box)
        serve(site, box, 0.0)
        _look(site, box)
        site.write_status()


def review(folder: _Folder) -> None:
    """Show the replies that wait for approval, whole, as they would leave."""
    from superteach.federated.box import file_name
    from superteach.federated.documents import shown
    from superteach.federated.site import Site

    waiting = Site(folder).waiting()
    for document in waiting:
        say(file_name(document))
        text = json.dumps(document.content, indent=1, ensure_ascii=False)
        typer.echo("\n".join(shown(line, len(line)) for line in text.splitlines()))
    say(f"{len(waiting)} replies wait. Let one go with  superteach site approve {folder} NAME  (or all)")


def approve(
    folder: _Folder,
    name: Annotated[str, typer.Argument(help="Beginning of the reply's name, or all.", show_default=False)],
) -> None:
    """Let replies go that wait for approval."""
    from superteach.federated.site import Site

    say(f"Replies on their way: {Site(folder).approve(name)}. The next look into the box takes them along.")


def status(
    folder: _Folder, as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False
) -> None:
    """Show what this site has answered, what it has spent, and what needs its owner."""
    from superteach.federated.runner import Runner
    from superteach.federated.site import Site

    site = Site(folder)
    runner = Runner(site)
    policy = runner.policy()
    facts = site.status() | {"privacy": list(policy.privacy)}
    if "dp" in policy.privacy:
        try:
            ledger = runner.ledger(policy)
            facts |= {"epsilon": ledger.epsilon, "delta": ledger.delta, "left": ledger.left}
            facts["paid"] = len(ledger.entries())
        except QueryRefused as error:  # the rest is worth knowing all the more
            facts["ledger"] = str(error)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    say(f"{site.name} accepts privacy {', '.join(policy.privacy)}; its key is {site.public}")
    if "left" in facts:
        say(f"Of ε = {facts['epsilon']:g} for its life {facts['left']:.4g} are left (δ = {facts['delta']:g}).")
    if "ledger" in facts:
        say(f"{facts['ledger']}.")
    for one in facts["lessons"]:
        said = (
            ", ".join(f"question {number} {status}" for number, status in one["replies"].items()) or "nothing said yet"
        )
        say(f"lesson {one['lesson']} ({one['privacy']}, {one['outcome']}): {said}")
    say(f"Lessons over: {facts['over']}. Replies that wait for approval: {len(facts['review'])}.")
    for text in facts["notices"]:
        say(text)


def serve(site: Site, box: Box, linger: float, parent: int = 0) -> None:
    """Answer what waits, and go on as long as something comes within `linger` seconds."""
    from superteach.federated.box import Pause
    from superteach.federated.runner import Runner

    runner, pause, last = Runner(site), Pause(box.patience), time.monotonic()
    while True:
        news = runner.work()
        news |= _look(site, box)
        if not site.pending():
            news |= runner.finish()
        last = time.monotonic() if news else last
        if time.monotonic() - last > linger or (parent and os.getppid() != parent):
            return
        pause(news)


def _has_work(site: Site) -> bool:
    charges = any((lesson.folder / "charge").exists() for lesson in site.lessons.values())
    return charges or bool(site.pending() or site.unfinished())


def _in_child(site: Site, box: Box) -> Site:
    """Work in a process that ends a while after its last lesson, so that a site that waits stays small."""
    from superteach.federated.site import Site

    parent = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            serve(site, box, LINGER, parent)
            status = 0
        except KeyboardInterrupt:
            status = 0
        except BaseException as error:
            warn(f"{site.name}: {type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(status)
    try:
        _, status = os.waitpid(child, 0)
    except KeyboardInterrupt:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        raise
    anew = Site(site.folder)
    anew.on_notice = site.on_notice
    if status:
        anew.notice(f"the process that answers ended with status {status}; it is started again")
        time.sleep(1.0)
    return anew


def _look(site: Site, box: Box) -> bool:
    """Look into the box; where that fails say so once and try again later."""
    try:
        return site.sync(box)
    except OSError as error:
        site.notice(f"the box {site.settings['box']} cannot be reached: {reason_of(error)}")
        time.sleep(1.0)
        return False


def _reach(site: Site) -> Box:
    from superteach.federated.box import open_box

    return open_box(str(site.settings["box"]))


@contextmanager
def _alone(folder: Path) -> Iterator[Site]:
    """Open a site that no other process runs."""
    from superteach.federated.site import Site

    site = Site(folder)
    handle, other = hold(folder / "lock")
    if handle < 0:
        raise SettingError(f"{str(folder)!r} is run by another process ({other}): one is enough")
    site.on_notice = lambda text: say(f"{site.name}: {text}")
    try:
        yield site
    finally:
        os.close(handle)


def _stop() -> None:
    raise KeyboardInterrupt
