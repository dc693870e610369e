"""The command `superteach`: teach from files, read a report, or watch a demonstration.

Exit status: 0 done, 2 bad usage or input, 1 anything else that went wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from superteach import packages
from superteach.cli import federation, site
from superteach.cli.lines import say, warn
from superteach.cli.request import Question, Request, with_options
from superteach.exceptions import InputError, Setting, SettingError, SuperteachError, counted, reason_of


class _Group(TyperGroup):
    """Commands that turn errors into one plain line on stderr and an exit status."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run without Typer's own handling of errors, then end with a status."""
        options["standalone_mode"] = False
        given = list(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: warn(f"warning: {message}")
            status = _status_of(lambda: super(_Group, self).main(args, *rest, **options), given)
        if standalone_mode:
            sys.exit(status)
        return status

    def list_commands(self, ctx: Any) -> list[str]:
        """Name our own commands, then the commands of other packages."""
        own = super().list_commands(ctx)
        return [*own, *sorted(set(packages.parts(packages.COMMANDS)) - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command here, or in the package that brings it."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in packages.parts(packages.COMMANDS):
            command = typer.main.get_command(packages.load(packages.COMMANDS, cmd_name))
            command.name = cmd_name
            return command
        if cmd_name in packages.LABORATORY[packages.COMMANDS]:
            raise SettingError(
                f"superteach {cmd_name} comes with the laboratory, which is not installed: run  "
                "pip install superteach-lab"
            )
        return None

    def invoke(self, ctx: Any) -> object:
        """Name an interruption here, before Typer turns it into a silent end."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Exit(_fail(f"interrupted{f'; {error}' if str(error) else ''}", 130)) from None


def _status_of(command: Callable[[], object], given: Sequence[str] = ()) -> int:
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except SuperteachError as error:
        return _fail(error.sentence(Setting.as_option), 2 if isinstance(error, InputError) else 1)
    except MemoryError as error:
        return _fail(f"not enough memory: {error}", 1)
    except OSError as error:
        if error.errno == errno.EPIPE:
            # Whoever read the output has gone; Python's own last flush must not fail on it again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _fail(str(error), 1)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands without one: its message is the help
            sys.stdout.write(f"{error.format_message()}\n")  # type: ignore[attr-defined]
            return 2
        # Typer's own usage errors, known by what they offer: the class has moved between versions.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            return _fail(_usage(error, given), int(error.exit_code))
        raise


def _usage(error: Any, given: Sequence[str]) -> str:
    """Say what Typer found wrong and in which value, and which page of the help to see where that says not what to do."""
    text = str(error.format_message()).rstrip(".").replace("Value error, ", "")
    for name in getattr(getattr(error, "param", None), "opts", ()):
        seen = [value for option, value in pairwise(given) if option == name]
        if text.startswith("Invalid value") and seen and repr(seen[-1]) not in text:
            text += f", got {seen[-1]!r}"
    context = getattr(error, "ctx", None)
    unknown = type(error).__name__ in ("NoSuchOption", "UsageError")
    helped = "Did you mean" in text or "Possible options" in text
    return f"{text}; see {context.command_path} --help" if unknown and context is not None and not helped else text


def _fail(message: str, status: int) -> int:
    warn(f"error: {' '.join(message.split())}")
    return status


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    rich_markup_mode=None,
    # A pretty traceback shows local variables, which hold private rows.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Help is text of its own here: Typer shows a docstring with the line breaks it has in the source.
_ABOUT = (
    "Choose the few rows from which a learner, trained on nothing else, learns the model you want it to learn. The rows may "
    "belong to several owners who keep them to themselves."
)
_ABOUT_TEACH = (
    "Choose the rows from which a learner, trained on them alone, learns a goal. The folder receives report.html, "
    "model.json, lesson.json, and the numbers of the chosen rows in each teacher's file (the first row is 0)."
)
_ABOUT_CHECK = (
    "Verify a lesson without trusting what made it.\n\n"
    "scikit-learn alone fits the chosen rows and all rows, every figure is computed again, and an independent checker looks "
    "at the proof; what is not checked is named. Writes a page (check.html in the folder). Exit status 0: all that was "
    "checked holds; 1: something fails."
)

_ABOUT_REPORT = (
    "Write a lesson as a page to read or send.\n\n"
    "The folder receives report.html, one file that needs nothing else, and figures/ with every figure as SVG and PNG."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from superteach.packages import VERSION

        typer.echo(f"superteach {VERSION}")
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


def _teach(request: Request) -> None:
    """Hand the command line over as one request."""
    from superteach.cli.folder import check_folder, claim

    place = check_folder(request.out, request.overwrite)
    with claim(request.out, place):
        if request.box is not None and request.spark is None:
            from superteach.cli.federated import run
        else:
            from superteach.cli.teach import run
        run(request, place)


app.command("teach", help=_ABOUT_TEACH, short_help="Choose rows that teach a goal.")(with_options(Request, _teach))


@app.command(short_help="Watch two methods on synthetic rows.")
def demo(
    rows: Annotated[int, typer.Option(min=100, help="Rows of all teachers together.")] = 5000,
    teachers: Annotated[int, typer.Option(min=1, help="How many teachers share them.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows and of the goal.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure and lesson.json.")] = Path("demo-output"),
) -> None:
    """Watch the paper's method and match on synthetic rows, beside the full pool and random rows."""
    from superteach.cli.demo import run

    run(rows, teachers, seed, out)


@app.command(help=_ABOUT_REPORT, short_help="Write a lesson as a page to read or send.")
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that superteach teach wrote.", show_default=False)],
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of another lesson to set beside it; may be repeated.", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Lesson report",
) -> None:
    """Read the lessons, write report.html and the figures beside the first."""
    from superteach.cli.folder import page_of_stored, read_lesson

    stored, lesson = read_lesson(folder)
    page = page_of_stored(stored, lesson, title=title, against=[read_lesson(place)[1] for place in against or []])
    try:
        page.write(folder / "report.html")
        files = page.write_figures(folder / "figures")
    except OSError as error:
        raise SettingError(
            f"{str(folder)!r} cannot be written: {reason_of(error)}; copy the folder to a place of your own"
        ) from None
    say(f"Written: {folder / 'report.html'} and {counted(len(files), 'figures')} in {folder / 'figures'}.")


_ABOUT_DROP = (
    "Find the fewest rows of a table without which a coefficient changes its sign, passes a value, or is no longer "
    "significant; or, with --winner and --loser, the fewest votes without which the first place changes.\n\n"
    "A proof from below stands beside the search: with up to three columns the two mostly meet. The folder receives "
    "report.html, drop.json, rows.csv (the numbers of the rows) and figures/."
)


def _drop(question: Question) -> None:
    """Hand the question over."""
    from superteach.cli.drop import run

    run(question)


app.command("drop", help=_ABOUT_DROP, short_help="Find the fewest rows that carry a finding.")(
    with_options(Question, _drop)
)


@app.command(help=_ABOUT_CHECK, short_help="Verify a lesson without trusting what made it.")
def check(
    folder: Annotated[Path, typer.Argument(help="Folder that superteach teach wrote.", show_default=False)],
    rows: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of the lesson, or its goal's file; may be repeated (default: those it names).",
            show_default=False,
        ),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="File for the page.", show_default=False)] = None,
) -> None:
    """Hand the folder over."""
    from superteach.cli.check import run

    if not run(folder, rows or [], page):
        raise typer.Exit(1)


federation.add_commands(app)
site.add_commands(app)


def main() -> None:
    """Run the command line."""
    warnings.simplefilter("ignore", RuntimeWarning)  # sums that overflow end with a sentence of our own
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="superteach")
