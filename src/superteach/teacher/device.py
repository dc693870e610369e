"""A teacher whose rows lie on a device that torch computes on, or are streamed to it in chunks.

Rows are stored in float32 or float64. Whatever is computed from them is float64, so that sums differ from the ones of
`superteach.teacher.Teacher` on the same stored rows by the order of addition alone. Exact teaching that rounds alone runs
on the device, but for the rounding of rows that prices leave undecided; other questions are answered from a copy of the
rows in the memory of this machine.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from superteach.exceptions import DataTypeError, QueryRefused, Setting
from superteach.losses.scalar import Loss
from superteach.optim.problem import Scaling
from superteach.privacy.guard import Guard
from superteach.protocol import queries
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import Query
from superteach.selection import rounding
from superteach.selection.majorant import majorant
from superteach.selection.relaxation import BINS, SHORTEST, idle_bin, long_bin
from superteach.teacher import HANDLERS, Handler, Teacher, selection
from superteach.teacher.reach import Reached, raised
from superteach.teacher.rows import Rows
from superteach.teacher.selection import Gradients, Sample, Undecided
from superteach.teacher.state import Answer, State, known
from superteach.teacher.sums import rows_named
from superteach.teacher.tensors import DeviceRows, Sought, can_fuse, exact, lots_of, sum_fused, sum_plain, terms, told
from superteach.types import Array, Positions

with suppress(ImportError):
    import torch

if TYPE_CHECKING:
    from torch import Tensor

MOVED = 1 << 28
"""Numbers of rows that are copied to this machine's memory for a question that the device does not answer: 2 GiB."""
LOSSES = ("logistic", "squared", "squared_hinge", "huber", "poisson")
"""Losses that devices compute."""


@dataclass(frozen=True, eq=False)
class DeviceGradients(Gradients):
    """Gradients at a model: the slope of every row, and the bin of the gradient's length."""

    bins: Tensor
    slope: Tensor
    counts: npt.NDArray[np.int64]
    """How many rows are in which bin."""


@dataclass(frozen=True, eq=False)
class DeviceSample(Sample):
    """Rows sampled, their places (None: all rows), slopes and log-odds."""

    rows: DeviceRows  # type: ignore[assignment]
    index: Tensor | None
    slope: Tensor
    odds: Tensor


@dataclass(frozen=True, eq=False)
class OnDevice(State):
    """What such a teacher remembers: the same, with what it knows of every row as tensors."""

    gradients: DeviceGradients | None = None
    sample: DeviceSample | None = None
    probabilities: Tensor | None = None


class DeviceTeacher(Teacher):
    """One owner's rows on a device."""

    rows: DeviceRows  # type: ignore[assignment]
    ids: Tensor | None  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        rows: DeviceRows,
        target: Tensor,
        ids: Tensor | None = None,
        costs: Array | None = None,
        home: Teacher | None = None,
    ) -> None:
        """Hold rows, with targets in float32 or float64; `home` has the same rows as they were handed in."""
        self.name, self.loss, self.guard, self.secret = name, None, Guard(), 0
        self.rows = rows
        self.target, self.costs, self.weights = target, costs, None
        self.ids = ids
        self._home = home

    @classmethod
    def of(cls, teacher: Teacher, device: torch.device, dtype: torch.dtype, stream: bool | None) -> DeviceTeacher:
        """Bring a teacher's rows to a device."""
        if isinstance(teacher, cls):
            return teacher
        if teacher.rows.dense is None:
            raise DataTypeError(
                f"teacher {teacher.name!r} has sparse rows, and Torch holds dense ones; leave engine out, or densify them"
            )
        with told(teacher.name, teacher.rows, dtype, device, "its rows are brought there"):
            rows = DeviceRows.place(torch.from_numpy(teacher.rows.dense.T), device, dtype, stream)
            target = torch.as_tensor(teacher.target, device=device)
            ids = torch.as_tensor(_signed(teacher.ids), device=device)
        found = cls(teacher.name, rows, exact(target), ids, teacher.costs, teacher)
        found.loss, found.guard, found.secret = teacher.loss, teacher.guard, teacher.secret
        return found

    def start(self) -> OnDevice:
        """Return the state before the first query."""
        return OnDevice()

    def answer(self, query: Query[object], state: State, turn: Turn) -> tuple[State, Sealed]:
        """Answer a query on the device, or from a copy of the rows."""
        self.guard.check_query(query)
        with told(self.name, self.rows, self.rows.matrix.dtype, self.rows.device, f"{query.name} was asked"):
            state, reply = _HANDLERS.get(type(query), _at_home)(self, query, state, turn)
        return state, self.guard.release(query, reply, self.name)

    def at_home(self) -> Teacher:
        """Return the same teacher with its rows in this machine's memory."""
        found = (self._home or self._copy).under(self.guard)
        found.secret = self.secret
        return found

    @cached_property
    def _copy(self) -> Teacher:
        """The rows as they are stored, copied from the device."""
        if self.rows.count * self.rows.features > MOVED:
            raise QueryRefused(
                f"teacher {self.name} would copy {self.rows.count:,} rows × {self.rows.features} from "
                f"{self.rows.device} to answer this, more than {MOVED:,} numbers; use ",
                Setting("method", "match"),
                " with ",
                Setting("rounding", "alone"),
                ", which needs no copy",
            )
        ids = None if self.ids is None else self.ids.cpu().numpy().view(np.uint64)
        rows, target = self.rows.matrix.cpu().numpy(), self.target.cpu().numpy().astype(np.float64)
        return Teacher(self.name, rows, target, ids, self.costs, self.loss)

    def announced(self, loss: queries.Announced) -> Loss:
        """Build the loss that a coordinator announces, or refuse it."""
        found = super().announced(loss)
        if found.name not in LOSSES:
            raise QueryRefused(f"devices compute the losses {', '.join(LOSSES)}, not {found.name!r}; leave engine out")
        return found

    def lots(self, where: slice | Tensor, seed: int) -> Tensor:
        """Draw a number in [0, 1) for some of the rows, as any teacher would."""
        if self.ids is not None:
            ids = self.ids[where]
        elif isinstance(where, slice):
            ids = torch.arange(where.start, where.stop, device=self.rows.device)
        else:
            ids = where
        return lots_of(ids, (seed ^ self.secret) % 2**64)

    def squares(self, scaling: Scaling) -> float:
        """Σ_j ‖x_j‖² on scaled columns."""
        blocks = (self.rows.wide(where, scaling) for where in self.rows.ranges())
        return float(sum(torch.linalg.vector_norm(x) ** 2 for x in blocks))


def _signed(ids: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    """Return the same bits as torch takes them."""
    return ids.view(np.int64) if ids.dtype.itemsize == 8 else ids.astype(np.int64)


# Sums --------------------------------------------------------------------------------------------------


def _asked(teacher: DeviceTeacher, query: queries.AskMoments | queries.AskValues, state: OnDevice) -> Sought | None:
    """Find what a sum runs over; None where the copy at home answers."""
    few = query.rows in ("chosen", "random")
    if query.function == "dual" or (few and teacher._home is not None):
        return None
    if (query.rows == "sampled") != (query.function == "relax") or (
        query.rows == "likely" and query.function != "loss"
    ):
        raise QueryRefused(f"teacher {teacher.name} does not sum {query.function!r} over rows {query.rows!r}")
    kind = query.function if query.function != "loss" else known(state.loss, "loss").name
    asked = Sought(teacher.rows, teacher.target, kind, state.scaling, state.loss)
    if query.rows in ("sampled", "likely"):
        drawn = known(state.sample, "rows sampled")
        target = teacher.target if drawn.index is None else teacher.target[drawn.index]
        asked = replace(asked, rows=drawn.rows, target=target)
        if query.rows == "likely":
            return replace(asked, weight=known(state.probabilities, "inclusion probabilities"))
        return replace(asked, lift=drawn.slope, given=drawn.odds)
    return replace(asked, index=teacher.rows.tensor(rows_named(state, query.rows))) if few else asked


def _moments(teacher: DeviceTeacher, query: queries.AskMoments, state: OnDevice, turn: Turn) -> Answer:
    """Σ f_j, Σ f_j' x_j and, for order 2, the upper triangle of Σ f_j'' x_j x_j'."""
    asked, width = _asked(teacher, query, state), len(query.point)
    if asked is None:
        return _at_home(teacher, query, state, turn)
    sums = sum_fused if teacher.rows.device.type == "cuda" and can_fuse(teacher.rows) else sum_plain
    total = torch.zeros(1 + width + width * width, dtype=torch.float64, device=teacher.rows.device)
    whole = sums is sum_fused and asked.index is None and asked.rows.matrix.device == teacher.rows.device
    for where in [slice(0, asked.count)] if whole else asked.rows.ranges(asked.count):
        total += sums(asked, where, query.point, query.order == 2)
    found = total.cpu().numpy()
    reply = found[: 1 + width]
    if query.order == 2:
        reply = np.append(reply, found[1 + width :].reshape(width, width)[queries.upper_triangle(width)])
    return state, reply


def _values(teacher: DeviceTeacher, query: queries.AskValues, state: OnDevice, turn: Turn) -> Answer:
    """Σ f_j at every step along a direction."""
    asked = _asked(teacher, query, state)
    if asked is None:
        return _at_home(teacher, query, state, turn)
    both = asked.rows.tensor(np.stack([query.point, query.direction], axis=1))
    totals = torch.zeros(len(query.steps), dtype=torch.float64, device=teacher.rows.device)
    for where in asked.rows.ranges(asked.count):
        places, target, lift, given, weight = asked.chunk(where)
        x = asked.rows.wide(places, asked.scaling)
        t = x @ both if lift is None else lift[:, None] * (x @ both[:-1]) + both[-1]
        for k, step in enumerate(query.steps.tolist()):
            value = terms(asked.kind, asked.loss, t[:, 0] + step * t[:, 1], target, given)[0]
            totals[k] += (value if weight is None else weight * value).sum()
    return state, totals.cpu().numpy()


def _column_sums(teacher: DeviceTeacher, query: queries.ColumnSums, state: OnDevice, turn: Turn) -> Answer:
    blocks = (teacher.rows.wide(where, Scaling(centre=query.centre)) for where in teacher.rows.ranges())
    total = sum((x if query.power == 1 else x * x).sum(dim=0) for x in blocks)
    return state, np.asarray(total.cpu().numpy())


def _compare(teacher: DeviceTeacher, query: queries.Compare, state: OnDevice, turn: Turn) -> Answer:
    models = teacher.rows.tensor(np.column_stack([query.models.T, query.goal]))
    total = torch.zeros(2 * len(query.models) + 2, dtype=torch.float64, device=teacher.rows.device)
    for where in teacher.rows.ranges():
        seen = teacher.rows.wide(where, state.scaling) @ models
        learned, wanted = seen[:, :-1], seen[:, -1:]
        same = ((learned > 0.0) == (wanted > 0.0)).sum(dim=0).double()
        spread = (wanted - float(query.centre[0])).square().sum(dim=0)
        total += torch.cat([same, (wanted - learned).square().sum(dim=0), wanted.sum(dim=0), spread])
    return state, np.append(float(teacher.rows.count), total.cpu().numpy())


# Exact teaching ----------------------------------------------------------------------------------------


def _sample(teacher: DeviceTeacher, query: queries.Sample, state: OnDevice, turn: Turn) -> Answer:
    drawn = [
        torch.nonzero(teacher.lots(where, query.seed) < query.probability)[:, 0] + where.start
        for where in teacher.rows.ranges()
    ]
    some = torch.cat(drawn).cpu().numpy()
    return replace(state, random=some), teacher.size_of(some)


def _gradients(teacher: DeviceTeacher, query: queries.Gradients, state: OnDevice, turn: Turn) -> Answer:
    """Take gradients at a model."""
    loss, rows = known(state.loss, "loss"), teacher.rows
    model, metric = rows.tensor(query.model), rows.tensor(query.metric)
    slope = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
    bins = torch.empty(rows.count, dtype=torch.int8, device=rows.device)
    counts = torch.zeros(BINS, dtype=torch.int64, device=rows.device)
    for where in rows.ranges():
        x = rows.wide(where, state.scaling)
        slope[where] = -terms(loss.name, loss, x @ model, teacher.target[where], None)[1]
        length = torch.log2(slope[where].abs()) + 0.5 * torch.log2(_squares(x, metric))
        here = (length.floor() - SHORTEST).clamp(0, BINS - 1).to(torch.int8)
        bins[where] = here
        counts += torch.bincount(here.to(torch.int64), minlength=BINS)
    found = counts.cpu().numpy()
    taken = DeviceGradients(query.model, bins, slope, found)
    state = replace(state, gradients=taken, sample=None, probabilities=None, undecided=None)
    return state, found.astype(np.float64)


def _squares(x: Tensor, metric: Tensor) -> Tensor:
    """‖M x_j‖²."""
    return _mapped(x, metric).square().sum(dim=1)


def _mapped(x: Tensor, metric: Tensor) -> Tensor:
    return x * metric if metric.ndim == 1 else x @ metric.T


def _thin(teacher: DeviceTeacher, query: queries.Thin, state: OnDevice, turn: Turn) -> Answer:
    """Give rows their log-odds, and sample those that take part."""
    pulls = known(state.gradients, "gradients")
    rows, table, cost = teacher.rows, teacher.rows.tensor(query.odds), 0.0
    if teacher.costs is not None:
        away = selection.COST * (teacher.costs - teacher.costs.min()) / (float(np.ptp(teacher.costs)) or 1.0)
        cost = rows.tensor(away)

    def odds_of(where: slice | Tensor) -> Tensor:
        return table[pulls.bins[where].long()] - (cost if isinstance(cost, float) else cost[where])

    if query.least > 0.0:
        likely, found = rows.tensor(expit(query.odds)), []
        for where in rows.ranges():
            chance = likely[pulls.bins[where].long()] if isinstance(cost, float) else torch.sigmoid(odds_of(where))
            stays = torch.nonzero(teacher.lots(where, query.seed) * query.least < chance)[:, 0]
            found.append(stays + where.start)
        index = torch.cat(found)
        raised = odds_of(index).clamp(min=float(logit(query.least)))
        drawn = DeviceSample(rows.part(index), index, pulls.slope[index], raised)
    else:
        every = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
        for where in rows.ranges():
            every[where] = odds_of(where)
        drawn = DeviceSample(rows, None, pulls.slope, every)
    state = replace(state, sample=drawn, probabilities=None, undecided=None)
    return state, np.array([drawn.rows.count], dtype=np.float64)


def _include(teacher: DeviceTeacher, query: queries.Include, state: OnDevice, turn: Turn) -> Answer:
    """Give rows their inclusion probabilities."""
    drawn = known(state.sample, "rows sampled")
    rows, point = drawn.rows, drawn.rows.tensor(query.dual)
    shares = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
    for where in rows.ranges():
        t = drawn.slope[where] * (rows.wide(where, state.scaling) @ point[:-1]) + point[-1]
        shares[where] = torch.sigmoid(drawn.odds[where] + t)
    return replace(state, probabilities=shares, undecided=None), np.array([float(shares.sum())])


def _envelope(teacher: DeviceTeacher, query: queries.Envelope, state: OnDevice, turn: Turn) -> Answer:
    """Bound how much rows pull along a direction at any model of a ball; products and sums are the device's."""
    loss, rows = known(state.loss, "loss"), teacher.rows
    total = np.zeros((len(query.radii), 2 * (1 + len(query.model))))
    for where in rows.ranges():
        x = rows.wide(where, state.scaling)
        products = Reached.of(
            query,
            1,
            partial(_products, rows, x),
            partial(_lengths, rows, x),
            partial(_products, rows, x.abs()),
        )
        target = teacher.target[where].to(torch.float64).cpu().numpy()
        for k, radius in enumerate(query.radii):
            found = majorant(loss, products.within(radius), target, float(query.direction[-1]))
            height = found.height.sum() + products.summing(radius, found.tilt)
            sums = (rows.tensor(np.stack([found.tilt, found.pull])) @ x).cpu().numpy()
            total[k] += np.concatenate([[height, found.on.sum()], *sums])
    return state, raised(total, rows.count)


def _products(rows: DeviceRows, x: Tensor, points: Array) -> Array:
    """X p for some points: points × rows, on this machine."""
    return np.asarray((rows.tensor(points) @ x.T).cpu().numpy())


def _lengths(rows: DeviceRows, x: Tensor, metric: Array) -> Array:
    """‖M x_j‖², on this machine."""
    return np.asarray(_squares(x, rows.tensor(metric)).cpu().numpy())


def _round_alone(teacher: DeviceTeacher, query: queries.RoundAlone, state: OnDevice, turn: Turn) -> Answer:
    """Round to this teacher's own fractional sum: undecided rows are brought to this machine and settled here."""
    drawn, pulls = known(state.sample, "rows sampled"), known(state.gradients, "gradients")
    rows, index, slope, bins = drawn.rows, drawn.index, drawn.slope, pulls.bins
    shares = known(state.probabilities, "inclusion probabilities")
    idle = idle_bin(pulls.counts)
    free = aside = total = 0.0
    classes, whole = np.zeros(BINS, dtype=np.int64), torch.zeros(len(query.metric), dtype=torch.float64)
    for where in rows.ranges():
        b, here = shares[where], bins[where if index is None else index[where]].long()
        free, aside = free + float((b * (1.0 - b)).sum()), aside + float(b[here < idle].sum())
        total += float(b.sum())
        classes += torch.bincount(here, minlength=BINS).cpu().numpy()
        whole += (rows.wide(where, state.scaling).T @ (slope[where] * b)).cpu()
    size = max(round(total), 0)
    thin, long = rounding.thinning(size), long_bin(classes)
    edges = rows.tensor(np.where(np.arange(BINS) >= long, rounding.EDGE, thin))
    undecided, certain = [], []
    for where in rows.ranges():
        places = where if index is None else index[where]
        b, here = shares[where], bins[places].long()
        open_ = teacher.lots(places, query.seed ^ 0x5EED) * edges[here] < torch.minimum(b, 1.0 - b)
        active = here >= idle
        undecided.append(torch.nonzero(active & open_)[:, 0] + where.start)
        certain.append(torch.nonzero(active & ~open_ & (b > 0.5))[:, 0] + where.start)
    some, sure = torch.cat(undecided), torch.cat(certain)
    places = some if index is None else index[some]
    edge = edges[bins[places].long()]
    likely = shares[some].clamp(edge, 1.0 - edge)
    most = rounding.most_candidates(query.metric)
    if len(some) > most:  # chance decides most rows; what they leave, the others absorb
        chance = teacher.lots(places, query.seed ^ 0x1A7E).cpu().numpy()
        stays = rows.tensor(selection.crowd_out((bins[places] >= long).cpu().numpy(), most, chance))
        falls = ~stays & (teacher.lots(places, query.seed ^ 0xFA11) < likely)
        sure = torch.cat([sure, some[falls]])
        some, places, likely = some[stays], places[stays], likely[stays]
    metric = rows.tensor(query.metric)
    vectors = _vectors(rows, slope, state.scaling, metric, some)
    settled = _sum_over(rows, slope, state.scaling, metric, sure)
    taken = (sure if index is None else index[sure]).cpu().numpy()
    short = torch.cat([torch.nonzero(bins[where] < idle)[:, 0] + where.start for where in teacher.rows.ranges()])
    rest = Undecided(places.cpu().numpy(), taken, short.cpu().numpy())
    target = _mapped(whole, metric.cpu()).numpy() - settled
    counted = rounding.counted(aside, free)
    chosen = selection.round_own(query, turn, vectors, likely.cpu().numpy(), target, size, rest, counted)
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def _sum_over(rows: DeviceRows, slope: Tensor, scaling: Scaling, metric: Tensor, some: Tensor) -> Array:
    """Σ M g_j over some of the rows, on the device."""
    total = torch.zeros(metric.shape[-1], dtype=torch.float64, device=rows.device)
    for where in rows.ranges(len(some)):
        places = some[where]
        total += rows.wide(places, scaling).T @ slope[places]
    return np.asarray(_mapped(total, metric).cpu().numpy())


def _vectors(rows: DeviceRows, slope: Tensor, scaling: Scaling, metric: Tensor, some: Tensor) -> Array:
    """M g_j of some of the rows, on this machine."""
    found = np.empty((len(some), len(metric)))
    for where in rows.ranges(len(some)):
        places = some[where]
        moved = _mapped(rows.wide(places, scaling), metric) * slope[places][:, None]
        found[where] = moved.cpu().numpy()
    return found


# Everything else ---------------------------------------------------------------------------------------


def _at_home(teacher: DeviceTeacher, query: Query[object], state: OnDevice, turn: Turn) -> Answer:
    """Answer from the copy of the rows, with what the device knows of them."""
    home = teacher.at_home()
    if type(query) not in HANDLERS:
        raise QueryRefused(f"teacher {teacher.name} knows no query named {type(query).__name__}")
    after, reply = HANDLERS[type(query)](home, query, _brought(home, state), turn)
    kept = {"gradients": state.gradients, "sample": state.sample, "probabilities": state.probabilities}
    return OnDevice(**vars(after) | kept), reply


def _brought(home: Teacher, state: OnDevice) -> State:
    """Return the same state as a teacher without a device has it."""
    pulls, drawn, shares = state.gradients, state.sample, state.probabilities
    taken = None if pulls is None else Gradients(pulls.model, pulls.bins.cpu().numpy())
    sample = None
    if drawn is not None:
        places: Positions | None = None if drawn.index is None else drawn.index.cpu().numpy()
        rows: Rows = home.rows if places is None else home.rows.part(places)
        sample = Sample(rows, places, drawn.slope.cpu().numpy(), drawn.odds.cpu().numpy())
    likely = None if shares is None else shares.cpu().numpy()
    return State(**vars(state) | {"gradients": taken, "sample": sample, "probabilities": likely})


_FROM_STATE = queries.Census, queries.Prepare, queries.Recall, queries.Select, queries.ChosenCost
"""Questions that the handlers of any teacher answer without a copy of the rows."""
_HANDLERS: dict[type[Query[object]], Handler] = {kind: HANDLERS[kind] for kind in _FROM_STATE} | {
    queries.ColumnSums: _column_sums,
    queries.AskMoments: _moments,
    queries.AskValues: _values,
    queries.Compare: _compare,
    queries.Sample: _sample,
    queries.Gradients: _gradients,
    queries.Thin: _thin,
    queries.Include: _include,
    queries.Envelope: _envelope,
    queries.RoundAlone: _round_alone,
}
