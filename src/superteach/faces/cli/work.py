"""Write which rows were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from superteach.faces.cli.folder import file_names
from superteach.lesson import Taught


def write_chosen(
    folder: Path, taught: Taught, row_numbers: Sequence[npt.NDArray[np.int64]], sources: Sequence[str]
) -> list[dict[str, object]]:
    """chosen/<teacher>.csv: the chosen rows by their numbers in the teacher's own file."""
    (folder / "chosen").mkdir()
    names = file_names(taught.lesson.teachers)
    stored = []
    for teacher, name, source, numbers, chosen in zip(
        taught.lesson.teachers, names, sources, row_numbers, taught.chosen, strict=True
    ):
        rows = np.sort(numbers[chosen])
        lines = "".join(f"{row}\n" for row in rows.tolist())
        (folder / "chosen" / name).write_text("row\n" + lines, encoding="utf-8", newline="\n")
        stored.append(
            {"teacher": teacher, "file": source, "chosen": f"chosen/{name}", "rows": len(rows), "held": len(numbers)}
        )
    return stored
