"""`superteach federation new`: a coordinator's key, its box, and an invitation for every site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    group = typer.Typer(help="Found a federation of sites on machines of their own.", no_args_is_help=True)
    group.callback()(lambda: None)  # one command stays a command of its group
    group.command()(new)
    app.add_typer(group, name="federation")


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
    from superteach.federated.federation import create_federation

    home = create_federation(folder, site or [], box)
    typer.echo(f"{folder}/key        the coordinator's private key; keep it here")
    typer.echo(f"{home.url}   the box; every site must be able to read and write there")
    for name in site or []:
        typer.echo(f"{folder}/invitations/{name}.json   send this to {name}, by a way nobody else can read")
    typer.echo(f"The coordinator's public key, for sites to compare:  {home.public}")
