"""What `superteach teach` and `superteach drop` are asked for: every option is a field of `Request` or `Question`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from superteach.exceptions import BudgetError, Setting, SettingError

if TYPE_CHECKING:
    from superteach.settings import Settings

LearnerName = StrEnum("LearnerName", ["logistic", "ridge", "svc", "poisson", "huber"])
MeasureName = StrEnum("MeasureName", ["predictions", "coefficients"])
PrivacyName = StrEnum("PrivacyName", ["none", "isolated", "dp"])
RoundingName = StrEnum("RoundingName", ["together", "alone"])
SolverName = StrEnum("SolverName", ["newton", "lbfgs", "block"])
SETTINGS = (
    "budget", "method", "measure", "privacy", "epsilon", "delta", "standardize", "risk_target", "rounding", "restarts",
    "seconds", "solver", "sparsity", "goal_weight", "solver_seconds", "random_state",
)  # fmt: skip
"""Fields of `Request` that are settings of the lesson; a test compares them with `Settings`."""


def _usual(help: str, metavar: str = "", *names: str) -> Any:
    """Declare an option that --help shows."""
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


def _other(help: str, *names: str, min: float | None = None) -> Any:
    """Declare an option that --help-all alone shows."""
    return typer.Option(*names, help=help, show_default=False, min=min, hidden=True)


def _show_all(context: typer.Context, wanted: bool) -> None:
    """Print the help with the options that are left out of the short one."""
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit()


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything the command line asks for; None where nothing was given."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="CSV or Parquet files, one for each teacher; or one file and --owner; or a folder of Parquet, which "
            "stays on disk.",
            show_default=False,
        ),
    ] = None
    learner: Annotated[
        LearnerName, _usual("logistic, ridge, svc, poisson or huber: what is trained on the chosen rows.", "NAME")
    ]
    goal: Annotated[
        str,
        _usual(
            "Model it should learn: a .json or .npy file, perturbed (fit on all rows, plus noise), max-auc, "
            "from-data:FILE (fit on these rows), or without:COLUMN (fit on all rows without it).",
            "MODEL",
        ),
    ]
    positive: Annotated[
        str | None, _usual("Label that scores above 0 predict (default: the last, sorted).", "LABEL")
    ] = None
    C: Annotated[float | None, _other("Inverse penalty of logistic and svc (default 1).", "--C")] = None
    alpha: Annotated[float | None, _other("Penalty of ridge, poisson and huber (default 1).")] = None
    intercept: Annotated[bool, _other("Fit an intercept (default: yes).", "--intercept/--no-intercept")] = True
    goal_seed: Annotated[int, _other("Seed of the noise of --goal perturbed (default 0).", min=0)] = 0

    target: Annotated[str | None, _usual("Column to be predicted; needed with files.", "COLUMN")] = None
    owner: Annotated[str | None, _usual("Column that names the teacher of each row.", "COLUMN")] = None
    features: Annotated[str | None, _usual("Feature columns, by commas (default: all others).", "COLUMNS")] = None
    costs: Annotated[str | None, _other("Column with what each row costs; match prefers cheap rows.")] = None
    encoding: Annotated[str, _other("How CSV files are written, such as latin-1 (default utf-8).")] = "utf-8"
    out_of_core: Annotated[
        bool | None,
        _other(
            "Leave the rows on disk, or bring them into memory (default: a folder, and Parquet that would fill a quarter "
            "of the free memory, stays on disk).",
            "--out-of-core/--in-memory",
        ),
    ] = None
    cache: Annotated[Path | None, _other("Folder for the copy of rows on disk (default: beside the data).")] = None
    resume: Annotated[
        bool, _other("With rows on disk: go on with an interrupted lesson of the same settings.", "--resume")
    ] = False
    spark: Annotated[
        str | None,
        _other(
            "Spark master (local[2], spark://host:7077, sc://host:15002): teach from one Parquet table, where each "
            "partition is a teacher, or each owner with --owner.",
        ),
    ] = None

    budget: Annotated[
        str | None,
        _usual(
            "How many rows: 200, 0.04 (of all), 50:200 (best of these), best (default) or smallest (with --risk-target).",
            "ROWS",
        ),
    ] = None
    privacy: Annotated[
        PrivacyName | None,
        _usual(
            "none (default: the coordinator may read rows), isolated (nothing leaves an owner but an acknowledgement; "
            "default with --box), or dp (noisy sums leave).",
            "MODE",
        ),
    ] = None
    epsilon: Annotated[float | None, _usual("ε of --privacy dp, for one row (default 1).", "NUMBER")] = None
    delta: Annotated[float | None, _other("δ of --privacy dp, at most 1 / (10 × rows) (default 1e-6).")] = None
    standardize: Annotated[bool, _usual("Teach on standardised columns.", "", "--standardize")] = False
    method: Annotated[
        str | None,
        _other(
            "How rows are chosen: match (teaches the goal exactly; default), dual (the paper's), oblivious (every teacher "
            "alone, as match would), random, or one that another package brings, such as oblivious-minlp.",
        ),
    ] = None
    measure: Annotated[
        MeasureName | None,
        _other(
            "What counts where the goal is out of reach: distance of predictions over all rows (default), or of "
            "coefficients (the paper's).",
        ),
    ] = None
    risk_target: Annotated[
        float | None, _other("Distance to the goal that is small enough (default: 1e-6 of its length).")
    ] = None
    rounding: Annotated[
        RoundingName | None,
        _other(
            "How match rounds to whole rows: over all teachers together (default), or each teacher alone (with --box).",
        ),
    ] = None
    restarts: Annotated[int | None, _other("Searches of match; the best is kept (default 1).")] = None
    seconds: Annotated[float | None, _other("Time after which match returns its best lesson so far.")] = None
    solver: Annotated[SolverName | None, _other("Solver of the dual (default newton; lbfgs for very wide data).")] = (
        None
    )
    staleness: Annotated[
        int,
        _other(
            "With --solver block: how many answers others may be ahead of a slow teacher. Above 0 rounds are "
            "asynchronous, which goes with --privacy none alone.",
            min=0,
        ),
    ] = 0
    sparsity: Annotated[float | None, _other("Weight of the dual's l1 term (0.1; regression 1).")] = None
    goal_weight: Annotated[float | None, _other("Weight of the goal in the dual (1000; regression 2000).")] = None
    solver_seconds: Annotated[
        float | None, _other("Time of each teacher's solver with oblivious-minlp (default 120).")
    ] = None
    random_state: Annotated[int | None, _other("The same seed gives the same lesson (default 0).", "--seed")] = None

    box: Annotated[
        Path | None,
        _usual("Folder of a federation, to teach with its sites.", "FOLDER"),
    ] = None
    teachers: Annotated[
        str | None, _other("Sites to teach with, separated by commas (default: all that have joined).")
    ] = None
    wait: Annotated[
        float | None, _other("Seconds without any reply after which to stop waiting (default 600).", min=0.0)
    ] = None
    no_wait: Annotated[
        bool, _other("Order the lesson and end; superteach lessons fetch goes on with it.", "--no-wait")
    ] = False

    out: Annotated[Path, _usual("Folder for the report, the model and the numbers of the chosen rows.", "FOLDER")]
    overwrite: Annotated[bool, _usual("Replace a result that is there.", "", "--overwrite")] = False
    dry_run: Annotated[bool, _usual("Say what the lesson would take; ask nobody.", "", "--dry-run")] = False
    measured: Annotated[
        bool,
        _other(
            "With --privacy isolated or dp: write measured.json too, with model and distance, computed from all rows and "
            "covered by no privacy mode.",
            "--measured",
        ),
    ] = False
    as_json: Annotated[bool, _other("Print the result as JSON and nothing else.", "--json")] = False
    help_all: Annotated[
        bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show every option.")
    ] = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the lesson that were given."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def check_settings(self, **defaults: object) -> Settings:
        """Check the settings; `defaults` stand in for what was not given."""
        from superteach.optim import Block
        from superteach.settings import Settings

        given = {**defaults, **self.settings}
        if self.staleness:
            if self.solver != "block":
                seen = self.solver or "no --solver"
                raise SettingError(f"--staleness {self.staleness} goes with --solver block, got {seen}")
            given["solver"] = Block(staleness=self.staleness)
        if self.budget is not None:
            given["budget"] = read_budget(self.budget)
        settings = Settings(**given)
        if settings.privacy != "dp":
            for name in ("epsilon", "delta"):  # whoever gives one must not get a lesson without noise
                if name in given:
                    raise SettingError(f"--{name} goes with --privacy dp, got --privacy {settings.privacy}")
        self._check_method(settings.method)
        if self.measured and settings.privacy == "none":
            raise SettingError("--measured goes with --privacy isolated or dp; with none lesson.json holds all of it")
        return settings

    def _check_method(self, method: str) -> None:
        """Refuse what was given for another method than this one."""
        from superteach.coordinator import methods

        for name in methods.unused(methods.find(method)):
            if name in self.settings:
                users = " or ".join(one for one in methods.OWN if name in methods.find(one).uses)
                raise SettingError(
                    Setting(name, self.settings[name]), f" goes with --method {users}, got --method {method}"
                )


@dataclass(frozen=True, kw_only=True)
class Question:
    """Everything `superteach drop` is asked; None where nothing was given."""

    file: Annotated[Path, typer.Argument(help="CSV or Parquet file.", show_default=False)]
    target: Annotated[str | None, typer.Option(help="Column to be predicted.")] = None
    coefficient: Annotated[str | None, typer.Option(help="Column whose coefficient is asked about.")] = None
    past: Annotated[float | None, typer.Option(help="Value the coefficient is to pass (default 0).")] = None
    significance: Annotated[float | None, typer.Option(help="Take away significance at this level, such as 0.05.")] = (
        None
    )
    standard_errors: Annotated[str, typer.Option(help="classical, HC0, HC1, or clustered by --groups.")] = "classical"
    groups: Annotated[str | None, typer.Option(help="Column of the clusters; no feature unless listed.")] = None
    winner: Annotated[str | None, typer.Option(help="Column of who won each vote.")] = None
    loser: Annotated[str | None, typer.Option(help="Column of who lost it.")] = None
    features: Annotated[
        str | None, typer.Option(help="Feature columns, separated by commas (default: all others).")
    ] = None
    learner: Annotated[
        str | None,
        typer.Option(
            help="linear, ridge, logistic, svc, poisson or huber (default: logistic for two classes, else linear)."
        ),
    ] = None
    C: Annotated[float | None, typer.Option("--C", help="Inverse penalty of logistic and svc (default 1).")] = None
    alpha: Annotated[float | None, typer.Option(help="Penalty of ridge, poisson and huber (default 1).")] = None
    intercept: Annotated[bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.")] = True
    most: Annotated[int | None, typer.Option(min=1, help="Most rows to remove (default: half).")] = None
    seconds: Annotated[float, typer.Option(min=0.0, help="Time for the proof.")] = 60.0
    encoding: Annotated[str, typer.Option(help="How CSV is written.")] = "utf-8"
    out: Annotated[Path | None, typer.Option(help="Folder for report and rows.")] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a result that is there.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False

    def check(self) -> None:
        """Refuse options that do not go together, before the file is read."""
        if (self.winner is None) != (self.loser is None):
            raise SettingError("--winner and --loser go together; name both columns")
        if self.winner is not None:
            if self.target is not None or self.coefficient is not None or self.significance is not None:
                raise SettingError(
                    "--winner and --loser ask about the first place; leave --target and --coefficient out"
                )
            return
        if self.target is None or self.coefficient is None:
            raise SettingError("name --target and --coefficient (or --winner and --loser, for a leaderboard)")
        if self.past is not None and self.significance is not None:
            raise SettingError("--past and --significance are two questions; give one of them")
        if self.learner == LINEAR and not (self.C is None and self.alpha is None):
            raise SettingError("--learner linear has no penalty; leave --C and --alpha out, or take ridge")
        if self.learner is None and not (self.C is None and self.alpha is None):
            raise SettingError("--C and --alpha go with --learner")


def read_budget(text: str) -> Any:
    """Read a count ("200"), a fraction ("0.04"), a range of either ("50:200"), "best" or "smallest"."""
    if text in ("best", "smallest"):
        return text
    try:
        ends = tuple(int(end) if end.strip().lstrip("+-").isdigit() else float(end) for end in text.split(":"))
    except ValueError:
        ends = ()
    if len(ends) not in (1, 2):
        raise BudgetError(
            Setting("budget", text),
            " is not known: give a count (200), a fraction (0.04), a range (50:200 or 0.01:0.05), best, or smallest with "
            "--risk-target",
        )
    return ends if len(ends) == 2 else ends[0]


def listed_in(text: str | None) -> list[str] | None:
    """Read names that are separated by commas; None where nothing was given."""
    return None if text is None else [name.strip() for name in text.split(",")]


LINEAR = "linear"
"""The learner of `superteach drop` without a penalty."""
Options = TypeVar("Options")


def with_options(kind: type[Options], run: Callable[[Options], None]) -> Callable[..., None]:
    """Make a command whose options are the fields of a dataclass."""

    def command(**options: Any) -> None:
        run(kind(**{name: one.value if isinstance(one, Enum) else one for name, one in options.items()}))

    command.__signature__ = inspect.signature(kind, eval_str=True)  # type: ignore[attr-defined]
    command.__annotations__ = get_type_hints(kind, include_extras=True)
    return command
