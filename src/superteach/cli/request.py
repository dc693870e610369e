"""What `superteach teach` is asked for: every option is a field of `Request`, or a setting of a lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, StrEnum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from superteach.exceptions import SettingError
from superteach.settings import Settings, of_options, option_of

_ROWS, _MODEL, _LESSON, _RESULT = "Rows", "Learner and goal", "Lesson", "Result"
_BOX = "Federation"


LearnerName = StrEnum("LearnerName", ["logistic", "ridge", "svc", "poisson", "huber"])
NOISE = ("epsilon", "delta")
"""Settings of --privacy dp alone: whoever gives one must not get a lesson without noise."""


def _option(default: Any, panel: str, help: str, *names: str, min: float | None = None, shown: bool = True) -> Any:
    """Declare an option: its default (MISSING: it must be given), the panel and the sentence of the help."""
    option = typer.Option(*names, help=help, rich_help_panel=panel, min=min, show_default=shown)
    return field(default=default, metadata={"option": option})


@dataclass(frozen=True)
class Request:
    """Everything the command line asks for."""

    learner: LearnerName = _option(MISSING, _MODEL, "Learner to be taught.")
    goal: str = _option(
        MISSING,
        _MODEL,
        "Model to be learned: a .json or .npy file, 'perturbed' (the fit on all rows, plus noise), 'max-auc' (orders "
        "the classes), 'from-data:FILE' (the fit on rows of your own), or 'without:COLUMN,…' (the fit on all rows without "
        "these columns).",
    )
    out: Path = _option(MISSING, _RESULT, "Folder for the result.")
    files: list[str] | None = field(
        default=None,
        metadata={
            "option": typer.Argument(
                help="CSV or Parquet files, one per teacher; or one file with --owner; or a folder of Parquet, which stays "
                "on disk. None with --box.",
                show_default=False,
            )
        },
    )
    target: str | None = _option(None, _ROWS, "Column to be predicted.")
    box: Path | None = _option(
        None,
        _BOX,
        "Folder of a federation (superteach federation new): teach with its sites through its box, instead of files. The "
        "same command goes on with a lesson that was interrupted.",
    )
    teachers: str | None = _option(
        None, _BOX, "Sites to teach with, separated by commas (default: all that have joined)."
    )
    wait: float | None = _option(
        None, _BOX, "Seconds without any reply after which to give up waiting (default 600).", min=0.0
    )
    no_wait: bool = _option(
        False, _BOX, "Order the lesson and end; superteach lessons fetch goes on with it.", "--no-wait"
    )
    spark: str | None = _option(
        None,
        _ROWS,
        "Spark master (local[2], spark://host:7077, sc://host:15002): teach from one Parquet table, where each "
        "partition is a teacher; with --owner each owner is.",
    )
    owner: str | None = _option(None, _ROWS, "Column that names each row's teacher.")
    features: str | None = _option(None, _ROWS, "Feature columns, separated by commas (default: all others).")
    costs: str | None = _option(None, _ROWS, "Column with what each row costs; match prefers cheap rows.")
    encoding: str = _option("utf-8", _ROWS, "How CSV files are written, such as latin-1 or cp1252.")
    out_of_core: bool | None = _option(
        None,
        _ROWS,
        "Keep the rows on disk, or bring them into memory (default: a folder, and Parquet that fills a quarter of the "
        "memory that is free, stay on disk).",
        "--out-of-core/--in-memory",
        shown=False,
    )
    cache: Path | None = _option(None, _ROWS, "Folder for the copy of rows on disk (default: beside the data).")
    resume: bool = _option(False, _ROWS, "With rows on disk: go on with a lesson of the same settings.", "--resume")
    C: float | None = _option(None, _MODEL, "Inverse penalty of logistic and svc (default 1).", "--C")
    alpha: float | None = _option(None, _MODEL, "Penalty of ridge, poisson and huber (default 1).")
    intercept: bool = _option(True, _MODEL, "Fit an intercept.", "--intercept/--no-intercept")
    positive: str | None = _option(
        None,
        _MODEL,
        "Label that scores above 0 predict, for goal and model (default: the one that the goal file names, else the last "
        "in sorted order).",
    )
    goal_seed: int = _option(0, _MODEL, "Seed of the perturbed goal.", min=0)
    staleness: int = _option(
        0,
        _LESSON,
        "With --solver block: how many answers others may be ahead of a slow teacher. Above 0 rounds are "
        "asynchronous, and teachers are asked one by one, which goes with --privacy none alone.",
        min=0,
    )
    measured: bool = _option(
        False,
        _RESULT,
        "With --privacy isolated or dp: write measured.json too, with the model and how near it comes, computed from all "
        "rows and covered by no privacy mode.",
        "--measured",
    )
    overwrite: bool = _option(False, _RESULT, "Replace a result that is there.", "--overwrite")
    dry_run: bool = _option(
        False, _RESULT, "Say rounds, bytes, time and what will leave, from invented rows; ask nobody.", "--dry-run"
    )
    as_json: bool = _option(False, _RESULT, "Print the result as JSON and nothing else.", "--json")
    settings: dict[str, object] = field(default_factory=dict)
    """Settings of the lesson that were given, by field of `Settings`."""

    def made(self, **defaults: object) -> Settings:
        """Check the settings; `defaults` stand in for what was not given."""
        given = {**defaults, **self.settings}
        if self.staleness:
            if given.get("solver") != "block":
                seen = given.get("solver") or "no --solver"
                raise SettingError(f"--staleness {self.staleness} goes with --solver block, got {seen}")
            given["solver"] = f"block(staleness={self.staleness})"
        settings = of_options(given)
        if settings.privacy != "dp" and (idle := [name for name in NOISE if name in self.settings]):
            raise SettingError(f"--{idle[0]} goes with --privacy dp, got --privacy {settings.privacy}")
        if self.measured and settings.privacy == "none":
            raise SettingError("--measured goes with --privacy isolated or dp; with none lesson.json holds all of it")
        return settings


def listed_in(text: str | None) -> list[str] | None:
    """Read names that are separated by commas; None where nothing was given."""
    return None if text is None else [name.strip() for name in text.split(",")]


Asked = TypeVar("Asked", bound=Request)


def takes(kind: type[Asked]) -> Callable[[Callable[[Asked], None]], Callable[..., None]]:
    """Give a command one option for each field of `kind` and for each setting, and hand them over as one `kind`."""
    hints = get_type_hints(kind)
    own = [one for one in fields(kind) if one.name != "settings"]
    parameters = [_parameter(one.name, hints[one.name], one.metadata["option"], one.default) for one in own]
    for one in fields(Settings):
        facts, kind_of = one.metadata, one.metadata["text"]
        flag = kind_of is bool
        shown = facts.get("shown") or (False if flag or one.default is None else str(one.default))
        name = f"--{option_of(one).replace('_', '-')}"
        name += f"/--no-{name[2:]}" if one.default is True else ""
        option = typer.Option(name, help=facts["help"], rich_help_panel=_LESSON, show_default=shown)
        if "choices" in facts:
            make: Any = StrEnum  # mypy reads a call of it as the definition of a class
            kind_of = make(one.name, {word: word for word in facts["choices"]})
        hint, default = (kind_of, one.default) if flag else (kind_of | None, None)
        parameters.append(_parameter(one.name, hint, option, default))

    def declare(command: Callable[[Asked], None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            plain = {name: one.value if isinstance(one, Enum) else one for name, one in given.items()}
            chosen = {one.name: plain.pop(one.name) for one in fields(Settings)}
            command(kind(**plain, settings={name: one for name, one in chosen.items() if one is not None}))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return declare


def _parameter(name: str, hint: object, option: object, default: object) -> Parameter:
    given = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=given, annotation=Annotated[hint, option])
