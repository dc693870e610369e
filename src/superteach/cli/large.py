"""`superteach teach` with rows that stay on disk: find the table, keep a journal, write the chosen rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from superteach.cli.folder import file_names
from superteach.cli.request import Request
from superteach.engines.checkpoint import ANEW, Journal
from superteach.exceptions import SettingError, TeachingError, reason_of
from superteach.io.formats.parquet import is_parquet
from superteach.learner import Learner
from superteach.lesson import Taught, versions
from superteach.settings import Settings
from superteach.teacher.large import LargePool, ParquetTable, is_large, parquet_files
from superteach.types import Json, Positions


def find_table(request: Request, features: list[str] | None, numeric: bool) -> ParquetTable | None:
    """Find the table that is to stay on disk: a folder, what --out-of-core says, or Parquet too large for this memory."""
    named = [Path(name) for name in request.files or []]
    folders = [path for path in named if path.is_dir()]
    if request.out_of_core is False and not folders:
        return None
    wanted = bool(folders) or request.out_of_core is True
    plain = all(is_parquet(path) and path.is_file() for path in named if path not in folders)
    if not wanted and (request.owner is not None or not named or not plain):
        return None
    if request.owner is not None:
        raise SettingError(f"--owner {request.owner!r} goes with rows in memory; on disk all rows are one owner's")
    places = [path for name in named for path in (parquet_files(name) if name in folders else [name])]
    table = ParquetTable(places, str(request.target), features, request.costs, numeric)
    return table if wanted or is_large(table.numbers) else None


@contextmanager
def lesson_journal(
    request: Request, settings: Settings, pool: LargePool, learner: Learner, place: Path
) -> Iterator[Journal]:
    """Keep the journal of a lesson beside its result; remove it when the lesson is done, else leave it to --resume."""
    path = place.parent / f".{place.name[:50]}.unfinished"
    asked = {
        "files": pool.table.marks if pool.table else [],
        "parts": pool.counts,
        "columns": pool.columns,
        "target": request.target,
        "costs": request.costs,
        "learner": learner.as_dict(),
        "goal": [request.goal, request.goal_seed],
        "classes": None if pool.classes is None else pool.classes.tolist(),
        "settings": settings.as_dict(),
        "versions": versions(),
    }
    made = [parent for parent in place.parents if not parent.exists()]
    if request.resume and not path.exists():
        raise SettingError(f"there is no unfinished lesson for --out {str(request.out)!r}; repeat without --resume")
    if not request.resume:
        path.unlink(missing_ok=True)
    try:
        journal = Journal(path, asked)
    except SettingError as error:
        raise SettingError(
            f"the unfinished lesson is another one (files, settings or versions differ); {ANEW}"
        ) from error
    try:
        yield journal
    except BaseException as error:
        if not journal.last:
            journal.remove()
        elif isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                f"round {journal.last} is kept; repeat the command with --resume to go on"
            ) from None
        raise
    else:
        journal.remove()
    finally:
        for parent in made:
            if not path.exists() and parent.exists() and not any(parent.iterdir()):
                parent.rmdir()


def write_large(folder: Path, taught: Taught, pool: LargePool) -> Json:
    """Write the chosen rows; return what lesson.json says of parts and of files."""
    chosen_by_part = zip(taught.lesson.teachers, taught.chosen, pool.counts, strict=True)
    parts = [{"teacher": name, "rows": len(chosen), "held": held} for name, chosen, held in chosen_by_part]
    return {"files": parts, "tables": _write_rows(folder, pool, pool.numbers(taught.chosen))}


def _write_rows(folder: Path, pool: LargePool, chosen: Positions) -> list[Json]:
    """Write chosen.parquet, the rows with their file and their number in it, and mask/: a truth value for each row."""
    table = pool.table
    assert table is not None
    (folder / "mask").mkdir()
    names = [f"{Path(name).stem}.parquet" for name in file_names([source.path.stem for source in table.sources])]
    firsts = np.cumsum([0, *table.counts])
    stored: list[Json] = []
    writer: parquet.ParquetWriter | None = None
    try:
        for file, source in enumerate(table.sources):
            own = _within(chosen, firsts[file], table.counts[file])
            for taken in _taken(table, file, own):
                writer = writer or parquet.ParquetWriter(folder / "chosen.parquet", taken.schema)
                writer.write_table(taken.cast(writer.schema))
            _write_mask(folder / "mask" / names[file], own, table.groups[file])
            entry = {"file": str(source.path), "rows": len(own), "held": table.counts[file]}
            stored.append({**entry, "mask": f"mask/{names[file]}"})
        if writer is not None:
            writer.close()
    except (OSError, pa.ArrowException) as error:
        raise TeachingError(
            f"the chosen rows cannot be written to {str(folder.parent)!r}: {reason_of(error)}; make room there and repeat "
            "the command with --resume"
        ) from None
    return stored


def _taken(table: ParquetTable, file: int, own: Positions) -> Iterator[pa.Table]:
    """Yield the chosen rows of one file, from the row groups that hold some."""
    ends = np.array(table.sources[file].ends)
    for group in np.unique(np.searchsorted(ends, own, side="right")).tolist():
        start = int(ends[group]) - table.groups[file][group]
        for part in table.tables(file, [group], table.asked):
            rows = _within(own, start, part.num_rows)
            if len(rows):
                name = pa.array([str(table.sources[file].path)] * len(rows)).dictionary_encode()
                some = part.take(pa.array(rows))
                yield some.add_column(0, "row", pa.array(rows + start)).add_column(0, "file", name)
            start += part.num_rows


def _within(rows: Positions, start: int, count: int) -> Positions:
    """Return the entries of ascending `rows` from `start` to `start + count`, counted from `start`."""
    first, end = np.searchsorted(rows, (start, start + count))
    return rows[first:end] - start


def _write_mask(path: Path, own: Positions, groups: list[int]) -> None:
    schema = pa.schema([("chosen", pa.bool_())])
    with parquet.ParquetWriter(path, schema) as writer:
        start = 0
        for rows in groups:
            mask = np.zeros(rows, dtype=bool)
            mask[_within(own, start, rows)] = True
            writer.write_table(pa.table([mask], schema=schema))
            start += rows
