"""Write the job that carries documents: python -m superteach.federated.nvflare JOB --box BOX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def write_job(
    folder: Annotated[Path, typer.Argument(help="New folder for the job.", show_default=False)],
    box: Annotated[Path, typer.Option(help="The coordinator's box, as the server reaches it.", show_default=False)],
) -> None:
    """Write an NVFlare job that carries documents until it is aborted."""
    from superteach.federated.nvflare.carrier import make_job

    make_job(str(box.resolve())).export_job(str(folder))
    typer.echo(
        f"{folder}/superteach   submit this with NVFlare: nvflare job submit, or submit_job in its admin console"
    )


if __name__ == "__main__":
    typer.run(write_job)
