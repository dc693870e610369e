"""Formats: one module each, found by itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from superteach.exceptions import DataError
from superteach.io import formats
from superteach.io.tables import read_pool

JSON_LINES = """
import pyarrow as pa
from pyarrow import json
from superteach.io.formats import Format


class JsonLines(Format):
    suffix = ".jsonl"

    def columns(self, path, encoding):
        return json.read_json(path).column_names

    def read(self, path, columns, encoding):
        return json.read_json(path).select(columns)


FORMAT = JsonLines()
"""


@pytest.fixture
def json_lines(tmp_path, monkeypatch):
    """One more module in the folder of formats."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "jsonlines.py").write_text(JSON_LINES)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "more")])
    formats.formats.cache_clear()
    yield
    formats.formats.cache_clear()


def test_a_format_is_one_module(json_lines, tmp_path):
    (tmp_path / "north.jsonl").write_text('{"x": 1.5, "y": 0}\n{"x": 2.5, "y": 1}\n')
    pool = read_pool([tmp_path / "north.jsonl"], "y")
    assert pool.columns == ("x",)
    assert pool.parts[0].features.ravel().tolist() == [1.5, 2.5]
    (tmp_path / "south.jsonl").write_text('{"x": 1.5, "y": null}\n')
    with pytest.raises(DataError, match=r"teacher 'south', column 'y', row 0 of .*south\.jsonl.*missing"):
        read_pool([tmp_path / "south.jsonl"], "y")


def test_an_unknown_format_is_told_which_there_are(tmp_path):
    (tmp_path / "rows.sav").write_bytes(b"x")
    with pytest.raises(DataError, match=r"ends in '.sav'; .csv"):
        read_pool([tmp_path / "rows.sav"], "y")


def test_rows_stand_on_a_line_in_text_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('x,y\n"a\nb",1\n\nc,2\n')
    assert formats.format_of(path).line(path, 1, "utf-8") == " (line 5)"
    assert formats.format_of(Path("rows.PARQUET")).line(path, 1, "utf-8") == ""
    assert isinstance(formats.format_of(path).read(path, ["y"], "utf-8"), pa.Table)
