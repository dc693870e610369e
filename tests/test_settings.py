"""Settings: one declaration, from which every face derives its own."""

from __future__ import annotations

import inspect
import json
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import superteach as st
from superteach import goals
from superteach.cli import goal
from superteach.cli.request import SETTINGS, Request
from superteach.coordinator import named
from superteach.exceptions import BudgetError, Setting, SettingError
from superteach.optim import LBFGS, Block, Newton
from superteach.privacy import PRIVACY
from superteach.settings import MEASURES, ROUNDINGS, SOLVERS, Settings, SettingsDict

NAMES = [one.name for one in fields(Settings)]
SOME = {
    "budget": (10, 20),
    "method": "dual",
    "risk_target": 0.5,
    "solver": Block(max_steps=7, beta=(1.0, 2.0), staleness=2),
    "standardize": True,
    "seconds": 3,
    "random_state": 2**64 - 1,
}


def test_every_face_has_every_setting_with_the_same_default():
    parameters = inspect.signature(st.SuperTeacher).parameters
    assert set(parameters) == {"estimator", "goal", "positive", "verbose", "engine", *NAMES}
    for one in fields(Settings):
        assert parameters[one.name].default == one.default
        assert parameters[one.name].annotation == one.type
        assert one.name in (st.SuperTeacher.__doc__ or "")
    assert set(SETTINGS) == set(NAMES)
    assert set(SETTINGS) <= {one.name for one in fields(Request)}
    assert {one.name: one.type for one in fields(Settings)} == {
        name: getattr(hint, "__forward_arg__", hint) for name, hint in SettingsDict.__annotations__.items()
    }


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("measure", MEASURES),
        ("privacy", PRIVACY),
        ("rounding", ROUNDINGS),
        ("solver", SOLVERS),
        ("learner", named.NAMES),
    ],
)
def test_the_command_line_knows_every_word_of_a_setting(option, words):
    """The lists on the command line are written out, so that its help loads nothing heavy."""
    hint = get_type_hints(Request)[option]
    kinds = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    assert {one.value for one in kinds[0]} == set(words)


def test_the_command_line_knows_every_goal_with_a_name():
    assert {name.partition(":")[0] for name in goal.NAMES} == set(goals.BY_OPTION)


def request_with(**given):
    return Request(learner="logistic", goal="perturbed", out=Path("out"), **given)


@pytest.mark.parametrize("given", [{}, SOME, {"solver": LBFGS()}, {"budget": 0.5, "solver": Newton(max_steps=3)}])
def test_settings_are_written_as_json(given):
    settings = Settings(**given)
    stored = json.loads(json.dumps(settings.as_dict()))
    assert list(stored) == NAMES
    solver = stored.pop("solver")
    assert replace(Settings(**stored), solver=settings.solver) == settings
    assert (solver is None) == (settings.solver is None)
    assert solver is None or eval(solver, {}, vars(st.optim)) == settings.solver


def test_values_are_kept_as_plain_ones():
    settings = Settings(
        budget=np.int64(5),
        restarts=np.int64(2),
        random_state=np.random.RandomState(0),
        standardize=np.bool_(True),
    )
    assert [type(one) for one in (settings.budget, settings.restarts, settings.random_state)] == [int] * 3
    assert settings.standardize is True
    assert Settings(random_state=None).random_state == 0
    assert Settings(solver="block").solver == Block()


WRONG = {
    "method": "best",
    "risk_target": -1.0,
    "sparsity": "x",
    "goal_weight": float("nan"),
    "solver": "simplex",
    "standardize": 1,
    "rounding": "apart",
    "measure": "labels",
    "restarts": 0,
    "seconds": -1,
    "solver_seconds": 0.0,
    "privacy": "secret",
    "epsilon": 0.0,
    "delta": 1.0,
    "random_state": -1,
    "budget": 0,
}


@pytest.mark.parametrize("name", NAMES)
def test_an_error_names_the_setting_and_the_value(name):
    value = WRONG[name]
    kind = BudgetError if name == "budget" else SettingError
    with pytest.raises(kind) as caught:
        Settings(**{name: value})
    assert caught.value.settings[0] == (name, value) or np.isnan(value)
    assert str(caught.value).startswith(f"{name}={value!r} ")
    option = "seed" if name == "random_state" else name.replace("_", "-")
    assert caught.value.sentence(Setting.as_option).startswith(f"--{option} {value}"[: 3 + len(option)])
    assert pickle.loads(pickle.dumps(caught.value)).settings[0][0] == name


@pytest.mark.parametrize(
    ("setting", "keyword", "option"),
    [
        (Setting("budget", (0.4, 0.1)), "budget=(0.4, 0.1)", "--budget 0.4:0.1"),
        (Setting("budget", "best"), "budget='best'", "--budget best"),
        (Setting("solver", Newton()), f"solver={Newton()!r}", "--solver newton"),
        (Setting("standardize", True), "standardize=True", "--standardize"),
        (Setting("standardize", False), "standardize=False", "--no-standardize"),
        (Setting("risk_target"), "risk_target=", "--risk-target"),
        (Setting("random_state", -1), "random_state=-1", "--seed -1"),
        (Setting("goal", goals.PerturbedFit(0)), "goal=PerturbedFit(seed=0)", "--goal perturbed"),
        (Setting("goal", goals.FromData), "goal=FromData", "--goal from-data:FILE"),
        (Setting("goal", goals.Without("sex")), "goal=Without('sex')", "--goal without:sex"),
    ],
)
def test_a_setting_is_written_for_python_and_for_the_command_line(setting, keyword, option):
    error = SettingError(setting, " is too much; see ", Setting("method", "match"))
    assert str(error) == f"{keyword} is too much; see method='match'"
    assert error.sentence(Setting.as_option) == f"{option} is too much; see --method match"


def test_settings_are_checked_together():
    with pytest.raises(SettingError, match="budget='smallest' needs risk_target=,"):
        Settings(budget="smallest")
    assert request_with(budget="20:80").check_settings().budget == (20, 80)
    assert request_with(solver="block", staleness=2, method="dual").check_settings().solver == Block(staleness=2)
    assert request_with().check_settings(privacy="none") == Settings()


def test_defaults_depend_on_the_learner():
    assert Settings().for_learner(st.Learner(st.losses.Logistic())).sparsity == 0.1
    assert Settings().for_learner(st.Learner(st.losses.Squared())).goal_weight == 2000.0
    assert Settings(sparsity=0.0).for_learner(st.Learner(st.losses.Squared())).sparsity == 0.0


def test_an_unknown_setting_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        st.SuperTeacher(size=3)


@pytest.mark.parametrize("verbose", [-1, "loud"])
def test_verbose_is_checked_before_any_row(verbose):
    with pytest.raises(SettingError, match=f"verbose={verbose!r}"):
        st.SuperTeacher(verbose=verbose).fit([[1.0]], [1])


def test_settings_are_given_once(federation_of, pool):
    X, y = pool("squared", 20, 2, 0)
    with pytest.raises(SettingError, match="as a whole or one by one, not both: budget"):
        st.teach(federation_of(X, y, 1), st.Learner(st.losses.Squared()), [1.0, 1.0], Settings(), budget=3)
