"""Settings: one declaration, from which every face derives its own."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest

import superteach as st
from superteach.cli.request import Request, takes
from superteach.exceptions import BudgetError, SettingError
from superteach.optim import LBFGS, Block, Newton
from superteach.settings import Given, Settings, of_options, option_of

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


def test_every_face_has_every_setting():
    """A setting is declared in one file."""
    assert list(Given.__annotations__) == NAMES
    assert set(st.SuperTeacher().get_params()) == {"estimator", "goal", "positive", "verbose", "engine", *NAMES}
    options = inspect.signature(takes(Request)(lambda request: None)).parameters
    assert set(NAMES) <= set(options)
    for name in NAMES:
        assert name in (st.SuperTeacher.__doc__ or "")


def test_the_types_for_keywords_are_those_of_the_fields():
    hints = {one.name: one.type for one in fields(Settings)}
    assert Given.__annotations__.keys() == hints.keys()
    assert {name: getattr(hint, "__forward_arg__", hint) for name, hint in Given.__annotations__.items()} == hints
    assert get_type_hints(st.SuperTeacher.__init__)["verbose"] is int


@pytest.mark.parametrize("given", [{}, SOME, {"solver": LBFGS()}, {"budget": 0.5, "solver": Newton(max_steps=3)}])
def test_settings_come_back_from_json(given):
    settings = Settings(**given)
    again = Settings(**json.loads(json.dumps(settings.as_dict())))
    assert again == settings
    assert set(settings.as_options()) == {option_of(one) for one in fields(Settings)}
    assert "seed" in settings.as_options()


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
    "colluders": -1,
    "masks": 1,
    "random_state": -1,
    "budget": 0,
}


@pytest.mark.parametrize("name", NAMES)
def test_an_error_names_the_setting_and_the_value(name):
    value = WRONG[name]
    kind = BudgetError if name == "budget" else SettingError
    with pytest.raises(kind, match=f"^{name}={value!r}"):
        Settings(**{name: value})
    one = next(one for one in fields(Settings) if one.name == name)
    with pytest.raises(kind, match=f"^--{option_of(one).replace('_', '-')} "):
        of_options({name: str(value) if name == "budget" else value})


def test_settings_are_checked_together():
    with pytest.raises(SettingError, match="budget='smallest' needs risk_target="):
        Settings(budget="smallest")
    with pytest.raises(SettingError, match="--budget smallest needs --risk-target,"):
        of_options({"budget": "smallest"})


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
