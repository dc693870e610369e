"""Torch: teachers whose rows lie on a GPU, or on any device that torch computes on; rows of a network's last layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from superteach.engines.threads import Threads
from superteach.exceptions import DataError, LearnerError, MissingExtra, SettingError
from superteach.teacher import Teacher
from superteach.types import Array, Foreign, Raw

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from superteach.teacher.device import DeviceTeacher


@dataclass(frozen=True)
class Torch:
    """An engine by name: `SuperTeacher(…, engine=Torch("cuda"))`, or `Federation(Torch("cuda")(teachers))`.

    Teachers are dealt out to several devices in turn. Rows are stored as `dtype`; sums are computed in float64. Rows that do
    not fit are streamed from this machine's memory in each pass (`stream`: None decides by free memory).
    """

    device: str | tuple[str, ...] = "cuda"
    dtype: Literal["float32", "float64"] = "float32"
    stream: bool | None = None

    def __post_init__(self) -> None:
        if find_spec("torch") is None:
            raise MissingExtra("torch", "torch", "Torch")
        if self.dtype not in ("float32", "float64"):
            raise SettingError(f"dtype={self.dtype!r} must be 'float32' or 'float64'")
        self._devices()

    def __call__(self, teachers: Sequence[Teacher]) -> Threads:
        """Bring teachers' rows to the devices: an engine over them."""
        import torch

        from superteach.teacher.device import DeviceTeacher

        devices, dtype = self._devices(), getattr(torch, self.dtype)
        moved = [
            DeviceTeacher.of(each, devices[place % len(devices)], dtype, self.stream)
            for place, each in enumerate(teachers)
        ]
        # What is left to this machine's cores are small matrices, for which threads of linear algebra wait for each other.
        return Threads(moved, threads=None if devices[0].type == "cpu" else len(moved))

    def teacher(
        self, name: str, features: Tensor | Raw, target: Tensor | Raw, ids: Raw | None = None, costs: Raw | None = None
    ) -> DeviceTeacher:
        """Make a teacher of tensors: rows × features that stay where they are if they are on the first device already.

        Targets are numbers, and −1 or +1 for classifiers; `ids` are distinct over all teachers (default: row numbers).
        """
        import torch

        from superteach.teacher.device import DeviceTeacher
        from superteach.teacher.tensors import DeviceRows, check_finite, exact

        device, dtype = self._devices()[0], getattr(torch, self.dtype)
        features, target = torch.as_tensor(features), torch.as_tensor(target)
        if features.ndim != 2 or target.shape != features.shape[:1]:
            raise DataError(
                f"teacher {name!r} has rows of shape {tuple(features.shape)} and targets of shape {tuple(target.shape)}; "
                "expected rows × columns and one target for each row"
            )
        rows = DeviceRows.place(features, device, dtype, self.stream)
        check_finite(name, rows)
        numbers = None if ids is None else torch.as_tensor(np.asarray(ids).astype(np.int64), device=device)
        return DeviceTeacher(name, rows, exact(target.to(device)), numbers, costs)

    def _devices(self) -> list[torch.device]:
        import torch

        names = (self.device,) if isinstance(self.device, str) else self.device
        if not isinstance(names, tuple | list) or any(
            type(name).__module__.startswith("superteach.") for name in names
        ):
            raise SettingError(
                f"device= takes the name of a device, such as engine=Torch('cuda'), got one {type(names).__name__}"
            )
        try:
            found = [torch.zeros(1, dtype=torch.float64, device=name).device for name in names]
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SettingError(
                f"device={self.device!r} cannot be used by torch {torch.__version__}: {reason}. Name devices that "
                "compute in float64, such as 'cuda', ('cuda:0', 'cuda:1') or 'cpu'"
            ) from None
        if not found:
            raise SettingError("device=() names no device")
        return found


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
    if not isinstance(module, torch.nn.Module):
        raise LearnerError(f"last_layer takes a torch.nn.Module and batches, got a {type(module).__name__}")
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
