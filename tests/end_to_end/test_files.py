"""Files become parts, or an error that names the teacher, the column and the row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from superteach.cli.folder import file_names
from superteach.cli.goal import read_goal
from superteach.exceptions import DataError, GoalError, InputError
from superteach.io.tables import Pool, read_pool


def save(path: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return path


def test_one_file_per_teacher_keeps_values_names_and_numbers(tmp_path: Path) -> None:
    save(tmp_path / "north.csv", {"a": [1.5, 2.5], "b": [1, 2], "y": [0, 1]})
    save(tmp_path / "south.parquet", {"y": [1, 0, 1], "b": [True, False, True], "a": [3.5, 4.5, 5.5]})
    pool = read_pool([tmp_path / "north.csv", tmp_path / "south.parquet"], "y")
    assert pool.columns == ("a", "b")
    assert [part.name for part in pool.parts] == ["north", "south"]
    np.testing.assert_array_equal(pool.parts[0].features, [[1.5, 1.0], [2.5, 2.0]])
    np.testing.assert_array_equal(pool.parts[1].features, [[3.5, 1.0], [4.5, 0.0], [5.5, 1.0]])
    np.testing.assert_array_equal(pool.parts[1].target, [1, 0, 1])
    np.testing.assert_array_equal(np.concatenate([part.ids for part in pool.parts]), np.arange(5))
    np.testing.assert_array_equal(pool.row_numbers[1], [0, 1, 2])


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "utf-16"])
def test_text_is_read_as_it_is_written(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "all.csv").write_text("größe,stadt,y\n1.5,Köln,grün\n2.5,Münster,rot\n", encoding=encoding)
    pool = read_pool([tmp_path / "all.csv"], "y", owner="stadt", encoding=encoding)
    assert pool.columns == ("größe",)
    assert [(part.name, *part.take_target()) for part in pool.parts] == [("Köln", "grün"), ("Münster", "rot")]


def test_owner_column_splits_one_file(tmp_path: Path) -> None:
    path = save(tmp_path / "pool.csv", {"who": ["b", "a", "b"], "x": [1.0, 2.0, 3.0], "y": [0, 1, 1]})
    pool = read_pool([path], "y", owner="who")
    assert [part.name for part in pool.parts] == ["a", "b"]
    np.testing.assert_array_equal(pool.parts[1].features, [[1.0], [3.0]])
    np.testing.assert_array_equal(pool.parts[1].ids, [0, 2])
    np.testing.assert_array_equal(pool.row_numbers[1], [0, 2])


def test_float32_stays_and_is_held_column_by_column(tmp_path: Path) -> None:
    single = pa.array([1, 2], pa.float32())
    narrow = save(tmp_path / "narrow.parquet", {"x": single, "z": single, "y": [0, 1]})
    mixed = save(tmp_path / "mixed.parquet", {"x": single, "z": [1.0, 2.0], "y": [0, 1]})
    pool = read_pool([narrow, mixed], "y")
    assert pool.parts[0].features.dtype == np.float32
    assert pool.parts[1].features.dtype == np.float64
    assert pool.parts[0].features.T.flags.c_contiguous


def test_listed_features_are_taken_in_their_order_and_others_ignored(tmp_path: Path) -> None:
    first = save(tmp_path / "a.csv", {"x": [1.0], "z": [2.0], "name": ["t"], "y": [0]})
    second = save(tmp_path / "b.csv", {"z": [3.0], "x": [4.0], "y": [1]})
    pool = read_pool([first, second], "y", features=["z", "x"])
    np.testing.assert_array_equal(pool.parts[0].features, [[2.0, 1.0]])
    np.testing.assert_array_equal(pool.parts[1].features, [[3.0, 4.0]])


def test_equal_stems_are_told_apart(tmp_path: Path) -> None:
    for folder in ("east", "west"):
        (tmp_path / folder).mkdir()
        save(tmp_path / folder / "rows.csv", {"x": [1.0], "y": [1]})
    pool = read_pool([tmp_path / "east" / "rows.csv", tmp_path / "west" / "rows.csv"], "y")
    assert [part.name for part in pool.parts] == ["east/rows.csv", "west/rows.csv"]


def test_text_labels_categories_decimals_and_awkward_names(tmp_path: Path) -> None:
    labels = pa.array(["no", "yes"]).dictionary_encode()
    decimals = pa.array([1, 2]).cast(pa.decimal128(22, 2))
    columns = {
        "x": decimals,
        "x.1": [3.0, 4.0],
        "ümlaut, \n": [5, 6],
        "y": labels,
        "__index_level_0__": [9, 9],
    }
    pool = read_pool([save(tmp_path / "t.parquet", columns)], "y")
    assert pool.columns == ("x", "x.1", "ümlaut, \n")
    np.testing.assert_array_equal(pool.parts[0].features, [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    assert list(pool.parts[0].target) == ["no", "yes"]


def test_a_hive_folder_adds_no_column(tmp_path: Path) -> None:
    (tmp_path / "site=3").mkdir()
    pool = read_pool([save(tmp_path / "site=3" / "t.parquet", {"x": [1.0], "y": [1]})], "y")
    assert pool.columns == ("x",)


def test_quoted_newlines_and_blank_lines_keep_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('x,note,y\n1,"two\nlines",0\n\n2,plain,1\n', encoding="utf-8")
    pool = read_pool([path], "y", features=["x"])
    np.testing.assert_array_equal(pool.parts[0].features, [[1.0], [2.0]])


BAD_COLUMNS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"x": [1.0, None], "y": [0, 1]}, {}, ["teacher 'south'", "column 'x'", "row 1"]),
    ({"x": [1.0, 2.0], "y": [None, 1]}, {}, ["teacher 'south'", "column 'y'", "row 0"]),
    ({"x": [1.0, float("nan")], "y": [0, 1]}, {}, ["teacher 'south'", "column 'x'", "row 1"]),
    ({"x": [float("inf"), 2.0], "y": [0, 1]}, {}, ["teacher 'south'", "column 'x'", "row 0", "infinite"]),
    ({"x": ["low", "high"], "y": [0, 1]}, {}, ["teacher 'south'", "'x'", "string", "'low'", "encode"]),
    (
        {"x": pa.array(["1", "u"]).dictionary_encode(), "y": [0, 1]},
        {},
        ["teacher 'south'", "'x'", "category", "'u'"],
    ),
    ({"x": pa.array([1, 2], pa.timestamp("s")), "y": [0, 1]}, {}, ["teacher 'south'", "'x'", "timestamp"]),
    ({"x": [[1.0], [2.0]], "y": [0, 1]}, {}, ["teacher 'south'", "'x'", "list"]),
    ({"x": pa.nulls(2), "y": [0, 1]}, {}, ["teacher 'south'", "'x'", "no value"]),
    ({"x": [1.0], "Y": [0]}, {}, ["teacher 'south'", "target column 'y'", "'x', 'Y'"]),
    ({"x": [1.0], "yy": [0]}, {}, ["teacher 'south'", "did you mean 'yy'"]),
    ({"z": [1.0], "y": [0]}, {}, ["teacher 'south'", "lacks 'x'", "adds 'z'"]),
    ({"x": [1.0], "z": [1.0], "y": [0]}, {}, ["teacher 'south'", "adds 'z'"]),
    ({"y": [0]}, {}, ["teacher 'south'", "lacks 'x'"]),
    ({"x": pa.array([], pa.float64()), "y": pa.array([], pa.int64())}, {}, ["teacher 'south'", "no rows"]),
    ({"x": [1.0], "y": ["red"]}, {"numeric_target": True}, ["teacher 'south'", "'y'", "'red'", "numbers"]),
    ({"x": [1.0], "y": [0]}, {"features": ["x", "q"]}, ["feature column 'q'"]),
    ({"x": [1.0], "y": [0]}, {"features": ["x", "x"]}, ["'x' is listed twice"]),
    ({"x": [1.0], "y": [0]}, {"features": ["x", "y"]}, ["'y' is the target"]),
    ({"x": [1.0], "y": [0]}, {"features": []}, ["empty"]),
    ({"x": [1.0], "y": [0]}, {"owner": "who"}, ["one file"]),
]


@pytest.mark.parametrize(("columns", "options", "named"), BAD_COLUMNS)
def test_bad_columns_are_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], named: list[str]
) -> None:
    good = save(tmp_path / "north.parquet", {"x": [1.0, 2.0], "y": [0, 1]})
    bad = save(tmp_path / "south.parquet", columns)
    with pytest.raises(InputError) as caught:
        read_pool([good, bad], "y", **options)
    for words in named:
        assert words in str(caught.value)


BAD_TEXTS = {
    "": "is empty",
    "x,y": "no rows",
    "x,y\n1,2\n3\n": "has 1 cell in line 3 but 2 column names",
    "x,x,y\n1,2,3\n": "2 columns named 'x'",
    "x;y\n1;2\n": "separate columns by ';'",
    ",x,y\n0,1,2\n": "without a name",
    "x,y\n1,0\n,1\n": "column 'x', row 1",
    "x,y\n1,0\n2,NA\n": "column 'y', row 1",
    "y\n1\n": "no column besides 'y'",
}


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_bad_csv_texts_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "north.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pool([path], "y")
    assert BAD_TEXTS[text] in str(caught.value)
    assert "teacher 'north'" in str(caught.value)


def test_places_that_hold_no_rows_are_refused(tmp_path: Path) -> None:
    good = save(tmp_path / "a.csv", {"x": [1.0], "y": [0]})
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "rows.xlsx").write_text("x")
    for name, words in [
        ("none.csv", "does not exist"),
        ("folder.csv", "directory"),
        ("rows.xlsx", "'.xlsx'"),
    ]:
        with pytest.raises(DataError, match=words):
            read_pool([good, tmp_path / name], "y")
    with pytest.raises(DataError, match="twice"):
        read_pool([good, tmp_path / "." / "a.csv"], "y")
    with pytest.raises(DataError, match="no file"):
        read_pool([], "y")
    with pytest.raises(DataError, match="cannot be reached"):
        read_pool(["a\0.csv"], "y")


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        (["a", None, "b"], "row 1"),
        ([0.5, 1.5, 2.5], "double"),
        (pa.array([None, None, "b"]).dictionary_encode(), "row 0"),
    ],
)
def test_bad_owner_columns(tmp_path: Path, owners: Any, words: str) -> None:
    path = save(tmp_path / "pool.parquet", {"who": owners, "x": [1.0, 2.0, 3.0], "y": [0, 1, 1]})
    with pytest.raises(DataError, match=f"owner column 'who'.*{words}"):
        read_pool([path], "y", owner="who")


def test_a_missing_value_below_an_owner_names_teacher_and_row_of_the_file(tmp_path: Path) -> None:
    path = save(tmp_path / "pool.parquet", {"who": [2, 1, 1], "x": [1.0, 2.0, None], "y": [0, 1, 1]})
    with pytest.raises(DataError, match="teacher '1', column 'x', row 2"):
        read_pool([path], "y", owner="who")


MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refused(path: Path, error: type[InputError], read: Callable[[], Any]) -> Any:
    """What was read, or None where a sentence on one line that names the file refuses it."""
    try:
        return read()
    except error as caught:
        refusal = str(caught)
    assert path.name in refusal
    assert "\n" not in refusal
    return None


def assert_sound(pool: Pool, name: str, columns: tuple[str, ...], rows: int) -> None:
    """One teacher, all its rows with their numbers, and nothing in them that is not finite."""
    (part,) = pool.parts
    assert (part.name, pool.columns) == (name, columns)
    assert part.features.shape == (rows, len(columns))
    assert np.isfinite(part.features).all()
    assert len(part.target) == rows
    np.testing.assert_array_equal(part.ids, np.arange(rows))
    np.testing.assert_array_equal(pool.row_numbers[0], np.arange(rows))


@MANY
@given(content=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".parquet"]), header=st.booleans())
def test_random_bytes_are_rows_or_an_input_error(tmp_path: Path, content: bytes, suffix: str, header: bool) -> None:
    """Bytes are no Parquet; as CSV they may be rows, of which none is lost and none is made up."""
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(b"x,y\n" * header + content)
    pool = read_or_refused(path, InputError, lambda: read_pool([path], "y"))
    if pool is None:
        return
    assert suffix == ".csv"
    stored = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    columns = tuple(name for name in stored.column_names if name != "y")
    assert_sound(pool, "noise", columns, stored.num_rows)
    for number, name in enumerate(columns):
        np.testing.assert_array_equal(pool.parts[0].features[:, number], stored[name].to_numpy())


@MANY
@given(
    st.lists(
        st.tuples(st.sampled_from(["0", "-2", "3.5", "1e3", "", "nan", "inf", "high"]), st.sampled_from("01"))
        | st.tuples(st.sampled_from("23"), st.sampled_from("01"), st.just("4"))
        | st.just(("",))
        | st.tuples(st.floats(-1e99, 1e99).map(repr), st.sampled_from("01")),
        max_size=4,
    )
)
def test_tables_are_read_as_they_are_written_or_refused(tmp_path: Path, table: list[tuple[str, ...]]) -> None:
    """Read where every line has two cells and the first is a finite number, to its last digit; refused elsewhere."""
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(",".join(line) + "\n" for line in table), encoding="utf-8")
    lines = [line for line in table if line != ("",)]  # an empty line is none
    good = all(len(line) == 2 and line[0] not in ("", "nan", "inf", "high") for line in lines)
    pool = read_or_refused(path, InputError, lambda: read_pool([path], "y"))
    assert (pool is not None) == (good and bool(lines))
    if pool is not None:
        assert_sound(pool, "table", ("x",), len(lines))
        np.testing.assert_array_equal(pool.parts[0].features[:, 0], [float(line[0]) for line in lines])
        np.testing.assert_array_equal(pool.parts[0].target, [int(line[1]) for line in lines])


@MANY
@given(place=st.floats(0.0, 1.0, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_parquet_is_rows_or_an_input_error(tmp_path: Path, place: float, byte: int, cut: bool) -> None:
    """A file that is cut is refused, one that is whole is read; a wrong byte in between is seen, or is a value."""
    path = save(tmp_path / "damaged.parquet", {"x": np.arange(50.0), "y": np.arange(50) % 2})
    content = bytearray(path.read_bytes())
    position = int(place * len(content))
    whole = content[position] == byte and not cut
    content[position] = byte
    path.write_bytes(content[:position] if cut else content)
    pool = read_or_refused(path, InputError, lambda: read_pool([path], "y"))
    assert not (cut and pool is not None)
    assert not (whole and pool is None)
    if pool is None:
        return
    stored = pyarrow.parquet.ParquetFile(path).read()
    assert_sound(pool, "damaged", tuple(name for name in stored.column_names if name != "y"), stored.num_rows)
    np.testing.assert_array_equal(pool.parts[0].target, stored["y"].to_numpy())
    if whole:
        np.testing.assert_array_equal(pool.parts[0].features[:, 0], np.arange(50.0))


GOOD_GOALS = [
    ("[1, 2]", False, [1.0, 2.0]),
    ("[1, 2, 3]", True, [1.0, 2.0, 3.0]),
    ('{"coef": {"b": 2, "a": 1}, "intercept": 3}', True, [1.0, 2.0, 3.0]),
    ('{"coef": [1, 2], "intercept": 0}', False, [1.0, 2.0]),
    ('{"columns": ["b", "a"], "coef": [2, 1], "intercept": 0, "classes": [0, 1]}', True, [1.0, 2.0, 0.0]),
]


@pytest.mark.parametrize(("text", "intercept", "expected"), GOOD_GOALS)
def test_goals_in_json(tmp_path: Path, text: str, intercept: bool, expected: list[float]) -> None:
    (tmp_path / "goal.json").write_text(text, encoding="utf-8")
    goal = read_goal(tmp_path / "goal.json", ["a", "b"], intercept, np.array([0, 1]))
    np.testing.assert_array_equal(goal, expected)


BAD_GOALS = [
    ('{"coef": {"a": 1}, "intercept": 0}', "no coefficient for column 'b'"),
    ('{"coef": {"a": 1, "b": 2, "c": 3}, "intercept": 0}', "coefficient for 'c'"),
    ('{"coef": {"a": 1, "b": 2}}', "no 'intercept'"),
    ('{"coef": [1, 2, 3], "intercept": 0}', "3 coefficients, expected 2"),
    ('{"coef": [1, "2"], "intercept": 0}', "entry 1 of coef is '2'"),
    ('{"coef": 4, "intercept": 0}', "list of numbers"),
    ('{"coef": [1, 2], "intercept": [0]}', "intercept is"),
    ('{"coef": [1, 2], "intercept": 0, "classes": ["n", "y"]}', "labels"),
    ('{"coefs": [1, 2]}', "no 'coef'"),
    ("[1, true, 0]", "True"),
    ("[1, 2, [3]]", "entry 2"),
    (f"[1, 2, {10**400}]", "too large"),
    ("3", "int"),
    ("{", "cannot be read"),
    ("[" * 100_000, "cannot be read"),
    ("", "cannot be read"),
]


@pytest.mark.parametrize(("text", "words"), BAD_GOALS)
def test_bad_goals_in_json(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "goal.json").write_text(text, encoding="utf-8")
    with pytest.raises(GoalError) as caught:
        read_goal(tmp_path / "goal.json", ["a", "b"], True, np.array([0, 1]))
    assert words in str(caught.value)


def test_goals_in_npy(tmp_path: Path) -> None:
    path = tmp_path / "goal.npy"
    np.save(path, np.array([[1, 2]]))
    np.testing.assert_array_equal(read_goal(path, ["a", "b"], False), [1.0, 2.0])
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(GoalError, match="cannot be read"):
        read_goal(path, ["a", "b"], False)
    np.save(path, np.array([1j, 2]))
    with pytest.raises(GoalError, match="complex"):
        read_goal(path, ["a", "b"], False)
    np.save(path, np.ones((2, 2)))
    with pytest.raises(GoalError, match="shape"):
        read_goal(path, ["a", "b"], False)


@MANY
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".json", ".npy"]), header=st.booleans())
def test_random_bytes_are_a_goal_or_a_goal_error(tmp_path: Path, content: bytes, suffix: str, header: bool) -> None:
    """A file without the marks of its format is no goal; where one is read, it is the file's numbers."""
    path = tmp_path / f"goal{suffix}"
    path.write_bytes((b"\x93NUMPY\x01\x00" if suffix == ".npy" else b"[") * header + content)
    goal = read_or_refused(path, GoalError, lambda: read_goal(path, ["a", "b"], False))
    if goal is not None:
        stored = np.load(path) if suffix == ".npy" else json.loads(path.read_bytes())
        np.testing.assert_array_equal(goal, np.ravel(stored))


@MANY
@given(
    st.lists(
        st.integers(-(10**6), 10**6) | st.floats() | st.sampled_from([None, True, "1", [1], {}, 10**400]),
        max_size=3,
    )
)
def test_a_list_of_numbers_is_a_goal_and_no_other_is(tmp_path: Path, entries: list[Any]) -> None:
    """Whether there is one finite number for each column is asked later, of goals from anywhere."""
    path = tmp_path / "goal.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    right = all(type(entry) in (int, float) and entry != 10**400 for entry in entries)
    goal = read_or_refused(path, GoalError, lambda: read_goal(path, ["a", "b"], False))
    assert (goal is not None) == right
    if goal is not None:
        np.testing.assert_array_equal(goal, np.array(entries, dtype=float))


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8, unique=True))
def test_file_names_are_distinct_and_stay_in_their_folder(teachers: list[str]) -> None:
    names = file_names(teachers)
    assert len({name.casefold() for name in names}) == len(teachers)
    for name in names:
        assert "/" not in name
        assert "\\" not in name
        assert not name.startswith(".")
        assert len(name.encode()) <= 200
