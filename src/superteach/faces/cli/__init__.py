"""The command `superteach`: teach from files, read a report, or watch a demonstration.

Exit status: 0 done, 2 bad usage or input, 1 anything else that went wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from superteach import extensions
from superteach.errors import InputError, SettingError, SuperteachError


class _Group(TyperGroup):
    """Commands whose errors are one plain line on stderr and an exit status."""

    def main(
        self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Run without Typer's own handling of errors, then end with a status."""
        options["standalone_mode"] = False
        status = _status_of(lambda: super(_Group, self).main(args, *rest, **options))
        if standalone_mode:
            sys.exit(status)
        return status

    def list_commands(self, ctx: Any) -> list[str]:
        """Name our own commands, then those of other packages."""
        own = super().list_commands(ctx)
        return [*own, *sorted(set(extensions.parts(extensions.COMMANDS)) - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command here, or in the package that brings it."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in extensions.parts(extensions.COMMANDS):
            command = typer.main.get_command(extensions.load(extensions.COMMANDS, cmd_name))
            command.name = cmd_name
            return command
        if cmd_name in extensions.LABORATORY[extensions.COMMANDS]:
            raise SettingError(
                f"superteach {cmd_name} comes with the laboratory, which is not installed: run  "
                "pip install superteach-lab"
            )
        return None

    def invoke(self, ctx: Any) -> Any:
        """Name an interruption here, before Typer turns it into a silent end."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(_fail("interrupted", 130)) from None


def _status_of(command: Any) -> int:
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except InputError as error:
        return _fail(str(error), 2)
    except SuperteachError as error:
        return _fail(str(error), 1)
    except MemoryError as error:
        return _fail(f"not enough memory: {error}", 1)
    except OSError as error:
        if error.errno == errno.EPIPE:
            # Whoever read the output has gone; Python's own last flush must not fail on it again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _fail(str(error), 1)
    except Exception as error:
        # Typer's own usage errors, known by what they offer: the class has moved between versions.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            return _fail(f"{error.format_message()} (see superteach --help)", int(error.exit_code))
        raise


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return status


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    rich_markup_mode="rich",
    # A pretty traceback shows local variables, and those hold private rows.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class LearnerName(StrEnum):
    """Learners by name."""

    logistic = "logistic"
    ridge = "ridge"
    svc = "svc"
    poisson = "poisson"
    huber = "huber"


class MethodName(StrEnum):
    """Methods by name."""

    dual = "dual"
    match = "match"
    oblivious = "oblivious"
    oblivious_minlp = "oblivious-minlp"
    random = "random"


class RoundingName(StrEnum):
    """Ways to round by name."""

    together = "together"
    alone = "alone"


class SolverName(StrEnum):
    """Solvers by name."""

    newton = "newton"
    lbfgs = "lbfgs"
    block = "block"


class OnLoss(StrEnum):
    """What to do when a teacher is lost."""

    abort = "abort"
    drop = "drop"
    wait = "wait"


# Help is text of its own here: Typer shows a docstring with the line breaks it has in the source.
_ABOUT = (
    "Several owners of private rows teach one model together.\n\n"
    "A coordinator agrees with the owners on prices, from sums, and picks the few rows from which a learner, "
    "trained on nothing else, learns the model you want it to learn."
)
_ABOUT_TEACH = (
    "Choose rows of all files from which a learner, trained on them alone, learns the goal.\n\n"
    "The folder receives report.html (to read or send), model.json (the taught model), lesson.json (its quality "
    "and what it took) and, for every teacher, chosen/<teacher>.csv: the numbers of the chosen rows in that "
    "teacher's file, the first being 0."
)

_ABOUT_REPORT = (
    "Write a lesson as a page to read or send.\n\n"
    "The folder receives report.html, one file that needs nothing else, and figures/ with every figure as SVG and PNG."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"superteach {version('superteach')}")
        raise typer.Exit()


@app.callback(invoke_without_command=True, help=_ABOUT)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Show what there is to do when nothing is asked for."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_ROWS, _MODEL, _LESSON, _RESULT = "Rows", "Learner and goal", "Lesson", "Result"
_FAULTS = "Faults of a federation"


@app.command(help=_ABOUT_TEACH)
def teach(
    learner: Annotated[
        LearnerName, typer.Option(help="Learner to be taught.", rich_help_panel=_MODEL, show_default=False)
    ],
    goal: Annotated[
        str,
        typer.Option(
            help="Model to be learned: a .json or .npy file, 'perturbed' (the fit on all rows, plus noise), "
            "'max-auc' (orders the classes), or 'from-data:FILE' (the fit on rows of your own).",
            rich_help_panel=_MODEL,
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the result.", rich_help_panel=_RESULT, show_default=False)
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="CSV or Parquet files, one per teacher; or one file with --owner. None with --federation.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column to be predicted.", rich_help_panel=_ROWS, show_default=False)
    ] = None,
    federation: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a federation: teach with whoever has joined, instead of files.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ] = None,
    teachers: Annotated[
        str | None,
        typer.Option(
            help="Teachers of the federation, separated by commas (default: all who have joined).",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    on_loss: Annotated[
        OnLoss,
        typer.Option(
            help="When a teacher of the federation is lost: abort, drop it and begin anew with the others, or wait "
            "for it and go on.",
            rich_help_panel=_FAULTS,
        ),
    ] = OnLoss.abort,
    least_teachers: Annotated[
        int | None,
        typer.Option(
            min=1, help="With fewer teachers left nothing is taught (default 2).", rich_help_panel=_FAULTS
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Seconds to wait for a lost teacher (default 60).", rich_help_panel=_FAULTS
        ),
    ] = None,
    answer_seconds: Annotated[
        float | None,
        typer.Option(
            min=1.0, help="Seconds for one answer of a teacher (default 600).", rich_help_panel=_FAULTS
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with a lesson of the same settings that was broken off.",
            rich_help_panel=_FAULTS,
        ),
    ] = False,
    owner: Annotated[
        str | None, typer.Option(help="Column that names each row's teacher.", rich_help_panel=_ROWS)
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns, separated by commas (default: all others).", rich_help_panel=_ROWS
        ),
    ] = None,
    C: Annotated[
        float | None,
        typer.Option("--C", help="Inverse penalty of logistic and svc (default 1).", rich_help_panel=_MODEL),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Penalty of ridge, poisson and huber (default 1).", rich_help_panel=_MODEL),
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.", rich_help_panel=_MODEL)
    ] = True,
    goal_seed: Annotated[
        int, typer.Option(min=0, help="Seed of the perturbed goal.", rich_help_panel=_MODEL)
    ] = 0,
    budget: Annotated[
        str,
        typer.Option(
            help="Rows to choose: a count (200), a fraction (0.04), the best size of a range (50:200 or "
            "0.01:0.05), best, or smallest (with --risk-target).",
            rich_help_panel=_LESSON,
        ),
    ] = "best",
    method: Annotated[
        MethodName,
        typer.Option(
            help="How rows are chosen: dual is the paper's, match teaches the goal exactly, random draws; with "
            "oblivious every teacher chooses alone, as match would, with oblivious-minlp by a mixed-integer solver.",
            rich_help_panel=_LESSON,
        ),
    ] = MethodName.match,
    risk_target: Annotated[
        float | None,
        typer.Option(
            help="Distance to the goal that is small enough (default: 1e-6 of the goal's length).",
            rich_help_panel=_LESSON,
        ),
    ] = None,
    rounding: Annotated[
        RoundingName | None,
        typer.Option(
            help="How match turns fractions into rows: together by sums (default with files, which are all on one machine; "
            "single rows can be read from the last of these sums), or each teacher alone (default with --federation).",
            rich_help_panel=_LESSON,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds after which match tries nothing more and returns its best lesson.",
            rich_help_panel=_LESSON,
        ),
    ] = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=1, help="Searches of match from other starts; the best is kept.", rich_help_panel=_LESSON
        ),
    ] = 1,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Column with what each row costs; match prefers cheap rows.", rich_help_panel=_ROWS
        ),
    ] = None,
    solver_seconds: Annotated[
        float,
        typer.Option(
            min=0.1, help="Seconds that oblivious-minlp gives each teacher's solver.", rich_help_panel=_LESSON
        ),
    ] = 120.0,
    solver: Annotated[
        SolverName | None,
        typer.Option(
            help="Solver of the dual (default newton; lbfgs for very wide data).", rich_help_panel=_LESSON
        ),
    ] = None,
    staleness: Annotated[
        int,
        typer.Option(
            min=0,
            help="With --solver block: how many answers others may be ahead of a slow teacher. Above 0 rounds are "
            "asynchronous, and teachers are asked one by one; a teacher's policy must allow it.",
            rich_help_panel=_LESSON,
        ),
    ] = 0,
    sparsity: Annotated[
        float | None, typer.Option(help="Weight of the l1 term (0.1; regression 1).", rich_help_panel=_LESSON)
    ] = None,
    goal_weight: Annotated[
        float | None,
        typer.Option(help="Pull towards the goal (1000; regression 2000).", rich_help_panel=_LESSON),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Teach on standardised columns; the model stays in raw units.",
            rich_help_panel=_LESSON,
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same lesson.", rich_help_panel=_LESSON)
    ] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a result that is there.", rich_help_panel=_RESULT)
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON and nothing else.", rich_help_panel=_RESULT),
    ] = False,
) -> None:
    """Hand the command line over as one order."""
    from superteach.faces.cli.teach import Order, run

    run(
        Order(
            files=files or [],
            federation=federation,
            teachers=teachers,
            on_loss=on_loss.value,
            least_teachers=least_teachers,
            wait=wait,
            answer_seconds=answer_seconds,
            resume=resume,
            target=target,
            owner=owner,
            features=features,
            learner=learner.value,
            C=C,
            alpha=alpha,
            intercept=intercept,
            goal=goal,
            goal_seed=goal_seed,
            budget=budget,
            method=method.value,
            risk_target=risk_target,
            rounding=None if rounding is None else rounding.value,
            seconds=seconds,
            restarts=restarts,
            costs=costs,
            solver_seconds=solver_seconds,
            solver=None if solver is None else solver.value,
            staleness=staleness,
            sparsity=sparsity,
            goal_weight=goal_weight,
            standardize=standardize,
            seed=seed,
            out=out,
            overwrite=overwrite,
            as_json=as_json,
        )
    )


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=100, help="Rows of all teachers together.")] = 5000,
    teachers: Annotated[int, typer.Option(min=1, help="How many teachers share them.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows and of the goal.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure and lesson.json.")] = Path("demo-output"),
) -> None:
    """Watch the paper's method and match on synthetic rows, beside the full pool and random rows."""
    from superteach.faces.cli.demo import run

    run(rows, teachers, seed, out)


@app.command(help=_ABOUT_REPORT)
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that superteach teach wrote.", show_default=False)],
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of another lesson to set beside it; may be repeated.", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Lesson report",
) -> None:
    """Hand the folders over."""
    from superteach.faces.cli.report import run

    run(folder, against or [], title)


from superteach.faces.cli import federation as _federation  # noqa: E402 (its commands need the app above)

_federation.add_commands(app)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="superteach")
