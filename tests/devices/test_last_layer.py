"""Rows of a network's last layer: torch's own products, and a lesson that teaches the layer again."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher, last_layer
from superteach.exceptions import DataError, LearnerError

ROOT, FASHION = Path(__file__).parents[2], Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4), torch.nn.Linear(4, 3)
    ).train()


def batches(rows=300, size=64):
    rng = np.random.default_rng(0)
    inputs = torch.tensor(rng.standard_normal((rows, 6)), dtype=torch.float32)
    labels = torch.tensor(rng.integers(0, 3, rows))
    return [(inputs[start : start + size], labels[start : start + size]) for start in range(0, rows, size)]


def test_what_the_last_layer_is_given(network):
    """The layer's own product of the rows is the network's output, without dropout; the network stays as it was."""
    found = last_layer(network, batches())
    assert network.training
    assert found.X.shape == (300, 4)
    frozen = network.eval()
    whole = torch.cat([frozen(inputs) for inputs, _ in batches()]).detach().numpy()
    assert np.allclose(found.X @ found.goal[:, :-1].T + found.goal[:, -1], whole, atol=1e-5)
    assert np.array_equal(found.y, torch.cat([labels for _, labels in batches()]).numpy())


def test_a_lesson_from_embeddings(network):
    """A plain softmax regression on chosen rows becomes the fit on all of them."""
    found = last_layer(network, batches(600))
    goal = LogisticRegression(tol=1e-10, max_iter=5000).fit(found.X, found.y)
    lesson = SuperTeacher(LogisticRegression(max_iter=5000), goal, budget=300).fit(found.X, found.y).lesson_
    assert lesson.risk < 0.1
    assert lesson.agreement > 0.95


def test_networks_that_cannot_be_taught(network):
    with pytest.raises(LearnerError, match=r"no torch\.nn\.Linear"):
        last_layer(torch.nn.Tanh(), batches())
    with pytest.raises(DataError, match="no batch"):
        last_layer(network, [])
    twice = torch.nn.Linear(6, 6)
    with pytest.raises(LearnerError, match="once"):
        last_layer(torch.nn.Sequential(twice, twice), batches())


@pytest.mark.skipif(not FASHION.is_dir(), reason="the images are Debian's package dataset-fashion-mnist")
def test_the_example(tmp_path, monkeypatch):
    """It draws, and chosen images lead the layer nearer to that of all images than random ones, at every size."""
    monkeypatch.setattr(sys, "argv", ["last_layer", str(tmp_path)])
    found = runpy.run_path(str(ROOT / "examples" / "last_layer.py"), run_name="__main__")
    assert (tmp_path / "last_layer.png").read_bytes().startswith(b"\x89PNG")
    assert all(taught > drawn for taught, drawn in zip(found["alike"]["match"], found["alike"]["random"], strict=True))
