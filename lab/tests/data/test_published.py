"""Loaders of published data: each publisher's form, made small; and damaged files."""

from __future__ import annotations

import gzip
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from superteach.exceptions import DataError, SettingError
from superteach_lab import data as datasets
from superteach_lab.data import tables
from superteach_lab.data.catalogue import COMPASS, HIGGS_FEATURES, STATES, SUPERCONDUCT_FEATURES
from superteach_lab.data.tables import Sample

LOADERS = [
    datasets.load_superconduct,
    datasets.load_higgs,
    datasets.load_acs_income,
    datasets.load_beijing_air,
    datasets.load_heart_disease,
]


def quiet(loader, *args, **settings):
    """Load an excerpt without the warning that it is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return loader(*args, **settings)


# Every loader --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_missing_files_name_the_place_the_publisher_and_the_way_out(load, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"https://\S+/") as nowhere:
        load(tmp_path / "nowhere")
    assert "nowhere" in str(nowhere.value)
    monkeypatch.setenv("SUPERTEACH_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"download it from https://\S+") as empty:
        load()
    assert str(tmp_path) in str(empty.value)
    assert "SUPERTEACH_DATA" in str(empty.value)


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_a_file_of_another_kind_is_refused_by_name(load, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"other\.csv"):
        load(other)
    junk = tmp_path / "junk.parquet"
    junk.write_bytes(b"PAR1 this is none")
    with pytest.raises(DataError, match=r"junk\.parquet.*cannot be read"):
        load(junk)
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(DataError, match=r"empty\.csv"):
        load(empty)


def test_the_data_home_is_the_argument_the_variable_or_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPERTEACH_DATA", str(tmp_path))
    assert datasets.get_data_home() == tmp_path
    assert datasets.get_data_home("~/x") == Path.home() / "x"
    monkeypatch.delenv("SUPERTEACH_DATA")
    assert datasets.get_data_home() == Path.home() / ".cache" / "superteach"


# Superconduct --------------------------------------------------------------------------------------------


def write_superconduct(path: Path, rows: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((rows, 82)), columns=[*SUPERCONDUCT_FEATURES, "critical_temp"])
    frame["number_of_elements"] = rng.integers(1, 9, rows)
    frame.to_csv(path, index=False)
    return frame


def test_superconduct_from_train_csv(tmp_path):
    frame = write_superconduct(tmp_path / "train.csv")
    with pytest.warns(UserWarning, match=r"20 rows, the published train\.csv has 21,263"):
        bunch = datasets.load_superconduct(tmp_path)
    np.testing.assert_array_equal(bunch.data, frame.drop(columns="critical_temp").to_numpy())
    np.testing.assert_array_equal(bunch.target, frame["critical_temp"])
    assert bunch.groups is None
    assert "unknown file" in bunch.DESCR
    X, y = quiet(datasets.load_superconduct, tmp_path, return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


def test_superconduct_names_what_is_wrong(tmp_path):
    frame = write_superconduct(tmp_path / "train.csv")
    frame.rename(columns={"mean_fie": "mean_fire"}).to_csv(tmp_path / "renamed.csv", index=False)
    with pytest.raises(DataError, match=r"renamed\.csv.*no column 'mean_fie'"):
        datasets.load_superconduct(tmp_path / "renamed.csv")
    frame.loc[3, "std_Density"] = np.nan
    frame.to_csv(tmp_path / "hole.csv", index=False)
    with pytest.raises(DataError, match=r"hole\.csv.*'std_Density', row 3"):
        datasets.load_superconduct(tmp_path / "hole.csv")
    text = (tmp_path / "train.csv").read_text()
    (tmp_path / "cut.csv").write_text(text[: len(text) * 2 // 3])
    with pytest.raises(DataError, match=r"cut\.csv.*cut short"):
        datasets.load_superconduct(tmp_path / "cut.csv")
    (tmp_path / "folder").mkdir()
    write_superconduct(tmp_path / "folder" / "train.csv")
    (tmp_path / "train.csv").unlink()
    (tmp_path / "second").mkdir()
    write_superconduct(tmp_path / "second" / "train.csv")
    with pytest.raises(DataError, match=r"more than one train\.csv"):
        datasets.load_superconduct(tmp_path)


# HIGGS ---------------------------------------------------------------------------------------------------


def write_higgs(path: Path, rows: int) -> np.ndarray:
    """UCI's form: no header, label first, eighteen decimals."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((rows, 29)).astype(np.float32)
    table[:, 0] = rng.integers(0, 2, rows)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as file:
        np.savetxt(file, table, fmt="%.18e", delimiter=",")
    return table


@pytest.mark.parametrize("name", ["HIGGS.csv", "HIGGS.csv.gz"])
def test_higgs_is_read_whole_and_exactly(name, tmp_path):
    table = write_higgs(tmp_path / name, 60)
    with pytest.warns(UserWarning, match=r"60 rows, the published HIGGS\.csv(\.gz)? has 11,000,000"):
        bunch = datasets.load_higgs(tmp_path)
    assert bunch.data.dtype == np.float32
    np.testing.assert_array_equal(bunch.data, table[:, 1:])
    np.testing.assert_array_equal(bunch.target, table[:, 0])
    assert tuple(bunch.feature_names) == HIGGS_FEATURES
    assert not bunch.files[0].recognised


def test_higgs_with_another_checksum_is_read_with_a_warning(tmp_path):
    write_higgs(tmp_path / "HIGGS.csv.gz", 5)
    with pytest.warns(UserWarning, match="not the HIGGS.csv.gz known by its checksum"):
        datasets.load_higgs(tmp_path)


def test_higgs_sample_is_exact_seeded_and_blind_to_blocks(tmp_path, monkeypatch):
    table = write_higgs(tmp_path / "HIGGS.csv", 3000)
    first = quiet(datasets.load_higgs, tmp_path, rows=500, random_state=3)
    assert first.data.shape == (500, 28)
    assert "500 of the file's 3,000 rows" in first.DESCR
    numbers = {row.tobytes(): number for number, row in enumerate(table[:, 1:])}
    chosen = [numbers[row.tobytes()] for row in first.data]
    assert chosen == sorted(set(chosen))  # rows of the file, none twice, in its order
    np.testing.assert_array_equal(first.target, table[chosen, 0])
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 14)
    again = quiet(datasets.load_higgs, tmp_path, rows=500, random_state=3)
    other = quiet(datasets.load_higgs, tmp_path, rows=500, random_state=4)
    np.testing.assert_array_equal(first.data, again.data)
    assert not np.array_equal(first.data, other.data)
    assert len(quiet(datasets.load_higgs, tmp_path, rows=None).data) == 3000


def test_a_sample_is_uniform():
    """Every pair of 6 rows is drawn equally often, χ² with 14 degrees of freedom below its 99.99 % point."""
    counts: Counter[tuple[int, ...]] = Counter()
    draws = 3000
    for seed in range(draws):
        sample = Sample(2, seed)
        for block in np.split(np.arange(6, dtype=np.float32)[:, None], [1, 3, 4]):
            sample.add(block)
            if seed % 2:
                sample._settle(2)  # as it does by itself when many rows have passed
        counts[tuple(sample.rows().ravel().astype(int).tolist())] += 1
    assert len(counts) == 15
    expected = draws / 15
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 42.6


def test_damaged_higgs_files_are_named(tmp_path):
    write_higgs(tmp_path / "HIGGS.csv.gz", 2000)
    whole = (tmp_path / "HIGGS.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.csv\.gz.*cut short"):
        datasets.load_higgs(tmp_path / "cut.csv.gz")
    write_higgs(tmp_path / "HIGGS.csv", 50)
    lines = (tmp_path / "HIGGS.csv").read_text().splitlines()
    cases = {
        "narrow.csv": [*lines, lines[0].rpartition(",")[0]],
        "label.csv": [*lines[:7], "2" + lines[7][1:]],
        "hole.csv": [*lines[:7], lines[7].rpartition(",")[0] + ","],
        "words.csv": ["label," + ",".join(HIGGS_FEATURES), *lines],
    }
    for name, content in cases.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
        with pytest.raises(DataError, match=name.replace(".", r"\.") + (".*row 7" if name[0] in "lh" else "")):
            datasets.load_higgs(tmp_path / name)
    for rows in (0, -1, 1.5, True):
        with pytest.raises(SettingError, match="rows="):
            datasets.load_higgs(tmp_path / "HIGGS.csv", rows=rows)


def test_a_sample_keeps_little_however_many_rows_pass_by():
    sample = Sample(5000, 0)
    most = 0
    for _ in range(100):
        sample.add(np.zeros((1000, 4), dtype=np.float32))
        most = max(most, sum(len(kept) for kept in sample._rows))
    assert sample.seen == 100_000
    assert most <= 6000
    assert len(sample.rows()) == 5000


# ACS income ----------------------------------------------------------------------------------------------


def write_census(folder: Path, code: int, rows: int = 300, **changes) -> pd.DataFrame:
    """A person file with the columns of 2018 that matter, some that do not, and holes where children have them."""
    rng = np.random.default_rng(code)
    age = rng.integers(0, 96, rows)
    frame = pd.DataFrame(
        {
            "RT": "P",
            "SERIALNO": [f"2018GQ{number:07d}" for number in range(rows)],
            "ST": code,
            "PWGTP": rng.integers(0, 200, rows),
            "AGEP": age,
            "COW": rng.integers(1, 9, rows),
            "MAR": rng.integers(1, 6, rows),
            "RELP": rng.integers(0, 18, rows),
            "SCHL": rng.integers(1, 25, rows),
            "SEX": rng.integers(1, 3, rows),
            "WKHP": rng.integers(0, 99, rows).astype(float),
            "OCCP": rng.integers(10, 9830, rows),
            "PINCP": rng.integers(-500, 120_000, rows).astype(float),
            "POBP": rng.integers(1, 554, rows),
            "RAC1P": rng.integers(1, 10, rows),
        }
    ).assign(**changes)
    for name in ("WKHP", "PINCP"):
        frame.loc[age < 16, name] = np.nan
    frame.loc[0, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [17, 1, 50_000, 1]  # in, and not above 50,000
    frame.loc[1, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [17, 1, 50_001, 1]
    frame.loc[2, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [16, 1, 60_000, 1]  # out, each for one reason
    frame.loc[3, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [17, 1, 100, 1]
    frame.loc[4, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [17, 0, 60_000, 1]
    frame.loc[5, ["AGEP", "WKHP", "PINCP", "PWGTP"]] = [17, 1, 60_000, 0]
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / f"psam_p{code:02d}.csv", index=False)
    return frame


CENSUS = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]


def test_census_person_files_are_filtered_as_folktables_does(tmp_path):
    folder = tmp_path / "2018" / "1-Year"  # as folktables lays them out
    whole = pd.concat([write_census(folder, 1), write_census(folder, 36), write_census(folder, 72)])
    kept = whole.query("AGEP > 16 and PINCP > 100 and WKHP > 0 and PWGTP >= 1")
    bunch = datasets.load_acs_income(tmp_path)
    np.testing.assert_array_equal(bunch.data, kept[CENSUS].to_numpy())
    np.testing.assert_array_equal(bunch.target, kept["PINCP"] > 50_000)
    assert bunch.target[:2].tolist() == [0, 1]
    np.testing.assert_array_equal(bunch.groups, kept["ST"].map({1: "AL", 36: "NY", 72: "PR"}))
    assert bunch.feature_names == CENSUS
    some = datasets.load_acs_income(tmp_path, states=["NY"])
    np.testing.assert_array_equal(some.data, bunch.data[bunch.groups == "NY"])


def test_census_one_hot_agrees_with_pandas(tmp_path):
    write_census(tmp_path, 48)
    codes = pd.DataFrame(datasets.load_acs_income(tmp_path).data.astype(int), columns=CENSUS)
    bunch = datasets.load_acs_income(tmp_path, categories="one-hot")
    table = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    for name in ("AGEP", "SCHL", "WKHP"):
        np.testing.assert_array_equal(table[name], codes[name])
    for name in table.columns[3:]:
        column, code = name.split("=")
        np.testing.assert_array_equal(table[name], codes[column] == int(code))
    assert not any("OCCP" in name or "POBP" in name for name in table.columns)


def test_census_says_what_is_wrong(tmp_path):
    frame = write_census(tmp_path, 6)
    frame.rename(columns={"RELP": "RELSHIPP"}).to_csv(tmp_path / "psam_p06.csv", index=False)
    with pytest.raises(DataError, match=r"no column 'RELP'.*since 2019"):
        datasets.load_acs_income(tmp_path)
    write_census(tmp_path, 6, ST=3)
    with pytest.raises(DataError, match="ST is 3"):
        datasets.load_acs_income(tmp_path)
    write_census(tmp_path, 6)
    with pytest.raises(DataError, match="'TX'"):
        datasets.load_acs_income(tmp_path, states=["CA", "TX"])
    with pytest.raises(SettingError, match="Texas"):
        datasets.load_acs_income(tmp_path, states=["Texas"])
    with pytest.raises(SettingError, match="states='TX'"):
        datasets.load_acs_income(tmp_path, states="TX")
    with pytest.raises(SettingError, match="categories='dummies'"):
        datasets.load_acs_income(tmp_path, categories="dummies")
    text = (tmp_path / "psam_p06.csv").read_text()
    (tmp_path / "psam_p06.csv").write_text(text[: -len(text) // 3].rpartition(",")[0])
    with pytest.raises(DataError, match=r"psam_p06\.csv.*cut short"):
        datasets.load_acs_income(tmp_path)


def test_census_with_a_hole_loses_the_row_and_says_so(tmp_path):
    frame = write_census(tmp_path, 6)
    whole = datasets.load_acs_income(tmp_path)
    frame["COW"] = frame["COW"].astype(float)
    frame.loc[0, "COW"] = np.nan
    frame.to_csv(tmp_path / "psam_p06.csv", index=False)
    less = datasets.load_acs_income(tmp_path)
    np.testing.assert_array_equal(less.data, whole.data[1:])
    assert less.dropped["rows"] == 1
    assert "a value is missing: 1." in less.DESCR


def test_fips_codes_are_the_states():
    assert len(STATES) == 52
    some = {6: "CA", 11: "DC", 12: "FL", 36: "NY", 48: "TX", 56: "WY", 72: "PR"}
    assert some.items() <= STATES.items()


# Beijing -------------------------------------------------------------------------------------------------


def write_beijing(folder: Path, station: str, rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(len(station))
    times = pd.date_range("2016-02-28 20:00", periods=rows, freq="h")  # over a leap day
    frame = pd.DataFrame(
        {"No": range(1, rows + 1), "year": times.year, "month": times.month, "day": times.day, "hour": times.hour}
    )
    for name in ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN"):
        frame[name] = np.round(100 * rng.random(rows), 1)
    frame["wd"] = rng.choice(COMPASS, rows)
    frame["WSPM"] = np.round(rng.random(rows), 1)
    frame["station"] = station
    frame.loc[3, "PM2.5"] = frame.loc[5, "CO"] = np.nan
    frame.loc[7, "wd"] = np.nan
    frame["time"] = times
    frame.drop(columns="time").to_csv(
        folder / f"PRSA_Data_{station}_20130301-20170228.csv", index=False, na_rep="NA", quoting=2
    )
    return frame


def test_beijing_from_a_folder_of_stations(tmp_path):
    frames = [write_beijing(tmp_path, station) for station in ("Dongsi", "Tiantan")]
    with pytest.warns(UserWarning, match="60 rows, the published PRSA_Data_Dongsi_20130301-20170228.csv has 35,064"):
        bunch = datasets.load_beijing_air(tmp_path)
    kept = pd.concat(frames).dropna()
    assert len(kept) == 2 * 57
    np.testing.assert_allclose(bunch.data[:, :10], kept[bunch.feature_names[:10]], rtol=1e-7)
    np.testing.assert_array_equal(bunch.target, kept["PM2.5"])
    np.testing.assert_array_equal(bunch.groups, kept["station"])
    np.testing.assert_array_equal(bunch.time, kept["time"].to_numpy().astype("datetime64[h]"))
    assert bunch.dropped["rows"] == 6
    east = kept["wd"].to_numpy() == "E"
    np.testing.assert_allclose(bunch.data[east, 10:], [[0.0, 1.0]] * east.sum(), atol=1e-7)
    southwest = kept["wd"].to_numpy() == "SW"
    np.testing.assert_allclose(bunch.data[southwest, 10:], [[-np.sqrt(0.5)] * 2] * southwest.sum(), rtol=1e-6)

    kept_all = quiet(datasets.load_beijing_air, tmp_path, missing="keep")
    assert kept_all.data.shape == (120, 12)
    assert np.isnan(kept_all.target).sum() == 2
    binary = quiet(datasets.load_beijing_air, tmp_path, threshold=75)
    np.testing.assert_array_equal(binary.target, kept["PM2.5"] > 75)


def test_beijing_says_what_is_wrong(tmp_path):
    frame = write_beijing(tmp_path, "Dongsi")
    file = tmp_path / "PRSA_Data_Dongsi_20130301-20170228.csv"
    (tmp_path / "PRSA_Data_Dongsi2_20130301-20170228.csv").write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="both hold station 'Dongsi'"):
        quiet(datasets.load_beijing_air, tmp_path)
    frame.assign(wd="up").to_csv(file, index=False)
    with pytest.raises(DataError, match="'up'"):
        quiet(datasets.load_beijing_air, file)
    frame.drop(columns=["O3", "time"]).to_csv(file, index=False)
    with pytest.raises(DataError, match="no column 'O3'"):
        quiet(datasets.load_beijing_air, file)
    with pytest.raises(SettingError, match="missing='mean'"):
        datasets.load_beijing_air(file, missing="mean")
    with pytest.raises(SettingError, match="threshold"):
        datasets.load_beijing_air(file, missing="keep", threshold=75)


# Heart disease -------------------------------------------------------------------------------------------

CLEVELAND = """63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0
67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2
53.0,0.0,3.0,128.0,216.0,0.0,2.0,115.0,0.0,0.0,1.0,0.0,?,0
"""
SWITZERLAND = """32,1,1,95,0,?,0,127,0,.7,1,?,?,1
34,1,4,115,0,?,?,154,0,.2,1,?,?,1
35,1,4,0,0,?,0,130,1,?,?,?,7,3
36,1,4,110,0,?,0,125,1,1,2,?,6,1
"""


def test_heart_disease_drops_columns_then_patients(tmp_path):
    (tmp_path / "processed.cleveland.data").write_text(CLEVELAND)
    (tmp_path / "processed.switzerland.data").write_text(SWITZERLAND)
    with pytest.warns(UserWarning, match=r"3 rows, the published processed\.cleveland\.data has 303"):
        bunch = datasets.load_heart_disease(tmp_path)
    # Switzerland lacks chol (0), fbs and ca for all; thal for exactly half of its patients, which is not most.
    assert bunch.dropped["columns"] == ["chol", "fbs", "ca"]
    assert bunch.feature_names == [
        "age",
        "sex",
        "cp",
        "trestbps",
        "restecg",
        "thalach",
        "exang",
        "oldpeak",
        "slope",
        "thal",
    ]
    assert bunch.data[:, 0].tolist() == [63.0, 67.0, 36.0]
    assert bunch.target.tolist() == [0, 1, 1]
    assert bunch.groups.tolist() == ["cleveland", "cleveland", "switzerland"]
    assert bunch.dropped["rows"] == 4
    assert "left out because a value is missing: 4" in bunch.DESCR

    kept = quiet(datasets.load_heart_disease, tmp_path, missing="keep")
    assert kept.data.shape == (7, 13)
    assert np.isnan(kept.data).sum() == 1 + 4 + 4 + 1 + 1 + 1 + 1 + 4 + 2


def test_heart_disease_says_what_is_wrong(tmp_path):
    (tmp_path / "mine.data").write_text(CLEVELAND)
    with pytest.raises(DataError, match=r"mine\.data.*processed\.va\.data"):
        datasets.load_heart_disease(tmp_path / "mine.data")
    (tmp_path / "processed.va.data").write_text(CLEVELAND[:-8])
    with pytest.raises(DataError, match=r"processed\.va\.data.*cut short"):
        datasets.load_heart_disease(tmp_path / "processed.va.data")
    (tmp_path / "processed.va.data").write_text(CLEVELAND.replace(",2\n", ",?\n"))
    with pytest.raises(DataError, match="row 1: the diagnosis"):
        quiet(datasets.load_heart_disease, tmp_path / "processed.va.data")
    # Each of two patients lacks another value: no column is lacking for most, and no patient is complete.
    (tmp_path / "processed.va.data").write_text(
        "?" + CLEVELAND[4:61] + CLEVELAND[61:].replace("67.0,1.0", "67.0,?")[:57] + "1\n"
    )
    with pytest.raises(DataError, match="no row has all its values"):
        quiet(datasets.load_heart_disease, tmp_path / "processed.va.data")
