"""Results on disk: what was finished is never computed twice and never lost."""

import json

import pytest

from superteach.exceptions import SettingError, TeachingError
from superteach.io.atomic import Records
from tests.limits import files_up_to


def fill(path, cells, calls):
    records = Records(path, {"rows": 5})
    for cell in cells:
        records.get({"cell": cell, "seed": 0}, lambda cell=cell: calls.append(cell) or {"risk": 0.1 * cell})
    return records


def test_a_finished_cell_is_read_back_not_computed(tmp_path):
    calls = []
    first = list(fill(tmp_path / "cells.jsonl", range(3), calls))
    again = list(fill(tmp_path / "cells.jsonl", range(4), calls))
    assert calls == [0, 1, 2, 3]
    assert again[:3] == first


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_line_costs_that_cell_alone(tmp_path, cut):
    path = tmp_path / "cells.jsonl"
    fill(path, range(3), [])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    calls = []
    fill(path, range(3), calls)
    assert calls == [2]
    assert path.read_bytes() == whole


def test_another_runs_file_is_left_alone(tmp_path):
    path = tmp_path / "cells.jsonl"
    fill(path, range(2), [])
    whole = path.read_bytes()
    with pytest.raises(SettingError, match="other settings"):
        Records(path, {"rows": 6})
    assert path.read_bytes() == whole


@pytest.mark.parametrize("text", ["hello\n", '{"settings": {"rows": 5}}\n[1]\n', '{"settings": {"rows": 5}}\n{}\n'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "cells.jsonl"
    path.write_text(text)
    with pytest.raises(SettingError, match="not a file of results"):
        Records(path, {"rows": 5})


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot keep results here"):
        Records(tmp_path / "file" / "cells.jsonl", {})


@pytest.mark.parametrize("room", [0, 11])
def test_a_full_disk_keeps_what_was_there(room, tmp_path):
    """There is room for some bytes of a line and then none; once there is room again the file goes on, whole."""
    path = tmp_path / "cells.jsonl"
    records = fill(path, range(2), [])
    whole = path.read_bytes()
    with files_up_to(len(whole) + room), pytest.raises(TeachingError, match="cannot write: File too large"):
        records.get({"cell": 9}, lambda: {"risk": 1.0})
    assert path.read_bytes() == whole
    assert len([json.loads(line) for line in whole.splitlines()]) == 3
    assert {"cell": 9} not in [record["cell"] for record in records]
    records.get({"cell": 9}, lambda: {"risk": 1.0})
    assert {"cell": 9} in [record["cell"] for record in Records(path, {"rows": 5})]
