"""What `superteach teach` is asked for: every option is a field of `Request`, or a setting of a lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, StrEnum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo

from superteach.errors import SettingError
from superteach.settings import Settings, of_options, option_of

_ROWS, _MODEL, _LESSON, _RESULT = "Rows", "Learner and goal", "Lesson", "Result"
_FAULTS = "Faults of a federation"


LearnerName = StrEnum("LearnerName", ["logistic", "ridge", "svc", "poisson", "huber"])
LOSSES = {"least_teachers": "least_teachers", "wait": "wait", "answer_seconds": "seconds"}
"""Settings of a federation alone, and what a lesson calls them: handed on where they are given."""
OnLoss = StrEnum("OnLoss", ["abort", "drop", "wait"])


def _option(
    panel: str, help: str, *names: str, min: float | None = None, show_default: bool | str = True
) -> OptionInfo:
    option: OptionInfo = typer.Option(*names, help=help, rich_help_panel=panel, min=min, show_default=show_default)
    return option


@dataclass(frozen=True)
class Request:
    """Everything the command line asks for."""

    learner: Annotated[LearnerName, _option(_MODEL, "Learner to be taught.")]
    goal: Annotated[
        str,
        _option(
            _MODEL,
            "Model to be learned: a .json or .npy file, 'perturbed' (the fit on all rows, plus noise), 'max-auc' (orders "
            "the classes), or 'from-data:FILE' (the fit on rows of your own).",
        ),
    ]
    out: Annotated[Path, _option(_RESULT, "Folder for the result.")]
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="CSV or Parquet files, one per teacher; or one file with --owner; or a folder of Parquet, which stays on "
            "disk. None with --federation.",
            show_default=False,
        ),
    ] = None
    target: Annotated[str | None, _option(_ROWS, "Column to be predicted.")] = None
    federation: Annotated[
        Path | None, _option(_ROWS, "Folder of a federation: teach with whoever has joined, instead of files.")
    ] = None
    spark: Annotated[
        str | None,
        _option(
            _ROWS,
            "Spark master (local[2], spark://host:7077, sc://host:15002): teach from one Parquet table, where each "
            "partition is a teacher; with --owner each owner is.",
        ),
    ] = None
    teachers: Annotated[
        str | None, _option(_ROWS, "Teachers of the federation, separated by commas (default: all who have joined).")
    ] = None
    owner: Annotated[str | None, _option(_ROWS, "Column that names each row's teacher.")] = None
    features: Annotated[str | None, _option(_ROWS, "Feature columns, separated by commas (default: all others).")] = (
        None
    )
    costs: Annotated[str | None, _option(_ROWS, "Column with what each row costs; match prefers cheap rows.")] = None
    out_of_core: Annotated[
        bool | None,
        _option(
            _ROWS,
            "Keep the rows on disk, or bring them into memory (default: a folder, and Parquet that fills a quarter of the "
            "memory that is free, stay on disk).",
            "--out-of-core/--in-memory",
            show_default=False,
        ),
    ] = None
    cache: Annotated[Path | None, _option(_ROWS, "Folder for the copy of rows on disk (default: beside the data).")] = (
        None
    )
    on_loss: Annotated[
        OnLoss,
        _option(
            _FAULTS,
            "When a teacher of the federation is lost: abort, drop it and begin anew with the others, or wait for it "
            "and go on.",
        ),
    ] = OnLoss.abort
    least_teachers: Annotated[
        int | None, _option(_FAULTS, "With fewer teachers left nothing is taught (default 2).", min=1)
    ] = None
    wait: Annotated[float | None, _option(_FAULTS, "Seconds to wait for a lost teacher (default 60).", min=0.0)] = None
    answer_seconds: Annotated[
        float | None, _option(_FAULTS, "Seconds for one answer of a teacher (default 600).", min=1.0)
    ] = None
    resume: Annotated[
        bool, _option(_FAULTS, "Go on with a lesson of the same settings that was broken off.", "--resume")
    ] = False
    C: Annotated[float | None, _option(_MODEL, "Inverse penalty of logistic and svc (default 1).", "--C")] = None
    alpha: Annotated[float | None, _option(_MODEL, "Penalty of ridge, poisson and huber (default 1).")] = None
    intercept: Annotated[bool, _option(_MODEL, "Fit an intercept.", "--intercept/--no-intercept")] = True
    goal_seed: Annotated[int, _option(_MODEL, "Seed of the perturbed goal.", min=0)] = 0
    staleness: Annotated[
        int,
        _option(
            _LESSON,
            "With --solver block: how many answers others may be ahead of a slow teacher. Above 0 rounds are "
            "asynchronous, and teachers are asked one by one, which goes with promise open alone.",
            min=0,
        ),
    ] = 0
    overwrite: Annotated[bool, _option(_RESULT, "Replace a result that is there.", "--overwrite")] = False
    dry_run: Annotated[
        bool,
        _option(_RESULT, "Say rounds, bytes, time and what will leave, from invented rows; ask nobody.", "--dry-run"),
    ] = False
    as_json: Annotated[bool, _option(_RESULT, "Print the result as JSON and nothing else.", "--json")] = False
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
        return of_options(given)


def listed_in(text: str | None) -> list[str] | None:
    """Read names that are separated by commas; None where nothing was given."""
    return None if text is None else [name.strip() for name in text.split(",")]


Asked = TypeVar("Asked", bound=Request)


def takes(kind: type[Asked]) -> Callable[[Callable[[Asked], None]], Callable[..., None]]:
    """Give a command one option for each field of `kind` and for each setting, and hand them over as one `kind`."""
    hints = get_type_hints(kind, include_extras=True)
    parameters = [
        _parameter(one.name, hints[one.name], Parameter.empty if one.default is MISSING else one.default)
        for one in fields(kind)
        if one.name != "settings"
    ]
    settings = {one.name for one in fields(Settings)}
    for one in fields(Settings):
        facts, kind_of = one.metadata, one.metadata["text"]
        flag = kind_of is bool
        shown = facts.get("shown") or ("" if flag or one.default is None else str(one.default))
        name = f"--{option_of(one).replace('_', '-')}"
        name += f"/--no-{name[2:]}" if one.default is True else ""
        option = _option(_LESSON, facts["help"], name, show_default=shown or False)
        if "choices" in facts:
            make: Any = StrEnum  # mypy reads a call of it as the definition of a class
            kind_of = make(one.name, {word: word for word in facts["choices"]})
        hint: object = Annotated[kind_of if flag else kind_of | None, option]
        parameters.append(_parameter(one.name, hint, one.default if flag else None))

    def declare(command: Callable[[Asked], None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            plain = {name: one.value if isinstance(one, Enum) else one for name, one in given.items()}
            chosen = {name: plain.pop(name) for name in settings}
            command(kind(**plain, settings={name: one for name, one in chosen.items() if one is not None}))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return declare


def _parameter(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
