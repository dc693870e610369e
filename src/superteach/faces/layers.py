"""`last_layer`: what a network hands to its last layer, as rows to teach that layer from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from superteach.errors import DataError, LearnerError, MissingExtra
from superteach.types import Array, Foreign, Raw


class Embedded(NamedTuple):
    """Rows of a last layer (float32), their labels, and the layer itself as a goal: outputs × inputs, bias last."""

    X: Raw
    y: Raw
    goal: Array


def last_layer(module: Foreign, loader: Iterable[tuple[Foreign, Foreign]]) -> Embedded:
    """Run batches (inputs, labels) through `module` once, and return what its last `torch.nn.Linear` is given.

    The network is frozen meanwhile: dropout and batch statistics are off. A layer of one output is a goal of one row.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "torch", "rows of a network's last layer") from None
    layers = [part for part in module.modules() if isinstance(part, torch.nn.Linear)]
    if not layers:
        raise LearnerError(f"{type(module).__name__} has no torch.nn.Linear, so it has no last layer to teach")
    last, seen, rows, labels = layers[-1], list[Foreign](), list[Raw](), list[Raw]()
    hook = last.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            for inputs, target in loader:
                seen.clear()
                module(inputs.to(last.weight.device))
                if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != len(target):
                    raise LearnerError("the last torch.nn.Linear must be given one vector for each row, once")
                rows.append(seen[0].float().cpu().numpy())
                labels.append(np.asarray(target))
    finally:
        hook.remove()
        module.train(training)
    if not rows:
        raise DataError("the loader gave no batch; at least one row is needed")
    weight = last.weight.detach().double().cpu().numpy()
    bias = np.zeros(len(weight)) if last.bias is None else last.bias.detach().double().cpu().numpy()
    goal = np.column_stack([weight, bias])
    return Embedded(np.concatenate(rows), np.concatenate(labels), goal[0] if len(goal) == 1 else goal)
