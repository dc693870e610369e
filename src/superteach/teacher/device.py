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

from superteach.exceptions import DataTypeError, QueryRefused
from superteach.losses.scalar import Loss
from superteach.optim.problem import Scaling
from superteach.privacy.guard import Guard
from superteach.protocol import queries
from superteach.protocol.messages import Sealed, Turn
from superteach.protocol.queries import Query
from superteach.protocol.queries.match import OCTAVES, SHORTEST, lowest_octave, strong_octave
from superteach.selection import rounding
from superteach.selection.majorant import majorant
from superteach.selection.rounding import InPlay
from superteach.teacher import HANDLERS, Handler, Teacher, play
from superteach.teacher.play import Balancing, Drawing
from superteach.teacher.reach import Reached, raised
from superteach.teacher.rows import Rows
from superteach.teacher.state import Answer, State, known
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
class Pulled(Balancing):
    """Pulls at a model: the octave and the slope of every row."""

    octave: Tensor
    slope: Tensor
    counts: npt.NDArray[np.int64]
    """How many rows are in which octave."""


@dataclass(frozen=True, eq=False)
class DeviceDrawing(Drawing):
    """Rows drawn, their places (None: all rows), slopes and log-odds."""

    rows: DeviceRows  # type: ignore[assignment]
    index: Tensor | None
    slope: Tensor
    odds: Tensor


@dataclass(frozen=True, eq=False)
class OnDevice(State):
    """What such a teacher remembers: the same, with what it knows of every row as tensors."""

    balance: Pulled | None = None
    drawing: DeviceDrawing | None = None
    fractions: Tensor | None = None


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
                f"{self.rows.device} to answer this, more than {MOVED:,} numbers; use method='match' with "
                "rounding='alone', which needs no copy"
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
    if query.function == "dual" or (query.rows == "chosen" and teacher._home is not None):
        return None
    if (query.rows == "drawn") != (query.function == "relax") or (query.rows == "priced" and query.function != "loss"):
        raise QueryRefused(f"teacher {teacher.name} does not sum {query.function!r} over rows {query.rows!r}")
    kind = query.function if query.function != "loss" else known(state.loss, "loss").name
    asked = Sought(teacher.rows, teacher.target, kind, state.scaling, state.loss)
    if query.rows in ("drawn", "priced"):
        drawn = known(state.drawing, "rows drawn")
        target = teacher.target if drawn.index is None else teacher.target[drawn.index]
        asked = replace(asked, rows=drawn.rows, target=target)
        if query.rows == "priced":
            return replace(asked, weight=known(state.fractions, "prices"))
        return replace(asked, lift=drawn.slope, given=drawn.odds)
    if query.rows == "chosen":
        return replace(asked, index=teacher.rows.tensor(known(state.chosen, "chosen rows")))
    return replace(asked, lift=known(state.balance, "pulls").slope) if query.function == "reach" else asked


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
    models = teacher.rows.tensor(np.stack([query.model, query.goal], axis=1))
    total = torch.zeros(4, dtype=torch.float64, device=teacher.rows.device)
    for where in teacher.rows.ranges():
        learned, wanted = (teacher.rows.wide(where, state.scaling) @ models).unbind(dim=1)
        same = ((learned > 0.0) == (wanted > 0.0)).sum().double()
        total += torch.stack(
            [same, (wanted - learned).square().sum(), wanted.sum(), (wanted - float(query.centre[0])).square().sum()]
        )
    return state, np.append(float(teacher.rows.count), total.cpu().numpy())


# Exact teaching ----------------------------------------------------------------------------------------


def _sample(teacher: DeviceTeacher, query: queries.Sample, state: OnDevice, turn: Turn) -> Answer:
    drawn = [
        torch.nonzero(teacher.lots(where, query.seed) < query.probability)[:, 0] + where.start
        for where in teacher.rows.ranges()
    ]
    chosen = torch.cat(drawn).cpu().numpy()
    return replace(state, chosen=chosen), teacher.size_of(chosen)


def _balance(teacher: DeviceTeacher, query: queries.Balance, state: OnDevice, turn: Turn) -> Answer:
    """Take pulls at a model."""
    loss, rows = known(state.loss, "loss"), teacher.rows
    model, metric = rows.tensor(query.model), rows.tensor(query.metric)
    slope = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
    octave = torch.empty(rows.count, dtype=torch.int8, device=rows.device)
    counts = torch.zeros(OCTAVES, dtype=torch.int64, device=rows.device)
    for where in rows.ranges():
        x = rows.wide(where, state.scaling)
        slope[where] = -terms(loss.name, loss, x @ model, teacher.target[where], None)[1]
        length = torch.log2(slope[where].abs()) + 0.5 * torch.log2(_squares(x, metric))
        here = (length.floor() - SHORTEST).clamp(0, OCTAVES - 1).to(torch.int8)
        octave[where] = here
        counts += torch.bincount(here.to(torch.int64), minlength=OCTAVES)
    found = counts.cpu().numpy()
    balance = Pulled(query.model, octave, slope, found)
    return replace(state, balance=balance, drawing=None, fractions=None, play=None), found.astype(np.float64)


def _squares(x: Tensor, metric: Tensor) -> Tensor:
    """‖M x_j‖²."""
    return _mapped(x, metric).square().sum(dim=1)


def _mapped(x: Tensor, metric: Tensor) -> Tensor:
    return x * metric if metric.ndim == 1 else x @ metric.T


def _draw(teacher: DeviceTeacher, query: queries.Draw, state: OnDevice, turn: Turn) -> Answer:
    """Give rows their log-odds, and draw which of them take part."""
    pulls = known(state.balance, "pulls")
    rows, table, cost = teacher.rows, teacher.rows.tensor(query.odds), 0.0
    if teacher.costs is not None:
        away = play.COST * (teacher.costs - teacher.costs.min()) / (float(np.ptp(teacher.costs)) or 1.0)
        cost = rows.tensor(away)

    def odds_of(where: slice | Tensor) -> Tensor:
        return table[pulls.octave[where].long()] - (cost if isinstance(cost, float) else cost[where])

    if query.least > 0.0:
        likely, found = rows.tensor(expit(query.odds)), []
        for where in rows.ranges():
            chance = likely[pulls.octave[where].long()] if isinstance(cost, float) else torch.sigmoid(odds_of(where))
            stays = torch.nonzero(teacher.lots(where, query.seed) * query.least < chance)[:, 0]
            found.append(stays + where.start)
        index = torch.cat(found)
        raised = odds_of(index).clamp(min=float(logit(query.least)))
        drawn = DeviceDrawing(rows.part(index), index, pulls.slope[index], raised)
    else:
        every = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
        for where in rows.ranges():
            every[where] = odds_of(where)
        drawn = DeviceDrawing(rows, None, pulls.slope, every)
    slack = sum(float((-drawn.odds[where]).clamp(min=0.0).sum()) for where in drawn.rows.ranges())
    state = replace(state, drawing=drawn, fractions=None, play=None)
    return state, np.array([drawn.rows.count, slack], dtype=np.float64)


def _price(teacher: DeviceTeacher, query: queries.Price, state: OnDevice, turn: Turn) -> Answer:
    """Take prices."""
    drawn = known(state.drawing, "rows drawn")
    rows, point = drawn.rows, drawn.rows.tensor(query.point)
    shares = torch.empty(rows.count, dtype=torch.float64, device=rows.device)
    for where in rows.ranges():
        t = drawn.slope[where] * (rows.wide(where, state.scaling) @ point[:-1]) + point[-1]
        shares[where] = torch.sigmoid(drawn.odds[where] + t)
    return replace(state, fractions=shares, play=None), np.array([float(shares.sum())])


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
    drawn, pulls = known(state.drawing, "rows drawn"), known(state.balance, "pulls")
    rows, index, slope, octave, shares = (
        drawn.rows,
        drawn.index,
        drawn.slope,
        pulls.octave,
        known(state.fractions, "prices"),
    )
    idle_class = lowest_octave(pulls.counts)
    free = mass = total = 0.0
    classes, whole = np.zeros(OCTAVES, dtype=np.int64), torch.zeros(len(query.metric), dtype=torch.float64)
    for where in rows.ranges():
        b, here = shares[where], octave[where if index is None else index[where]].long()
        free, mass = free + float((b * (1.0 - b)).sum()), mass + float(b[here < idle_class].sum())
        total += float(b.sum())
        classes += torch.bincount(here, minlength=OCTAVES).cpu().numpy()
        whole += (rows.wide(where, state.scaling).T @ (slope[where] * b)).cpu()
    counted, size = mass < 4.0 * np.sqrt(free), max(round(total), 0)
    thin, strong = rounding.thinning(size), strong_octave(classes)
    edges = rows.tensor(np.where(np.arange(OCTAVES) >= strong, rounding.EDGE, thin))
    undecided, certain = [], []
    for where in rows.ranges():
        places = where if index is None else index[where]
        b, here = shares[where], octave[places].long()
        open_ = teacher.lots(places, query.seed ^ 0x5EED) * edges[here] < torch.minimum(b, 1.0 - b)
        active = here >= idle_class
        undecided.append(torch.nonzero(active & open_)[:, 0] + where.start)
        certain.append(torch.nonzero(active & ~open_ & (b > 0.5))[:, 0] + where.start)
    some, sure = torch.cat(undecided), torch.cat(certain)
    places = some if index is None else index[some]
    edge = edges[octave[places].long()]
    fractions = shares[some].clamp(edge, 1.0 - edge)
    most = rounding.in_play(query.metric)
    if len(some) > most:  # lots decide most rows; what they leave, the others absorb
        long = octave[places] >= strong
        shared = torch.where(long, 1.0 / long.sum(), 1.0 / (~long).sum())
        stays = teacher.lots(places, query.seed ^ 0x1A7E) < 0.5 * most * shared
        falls = ~stays & (teacher.lots(places, query.seed ^ 0xFA11) < fractions)
        sure = torch.cat([sure, some[falls]])
        some, places, fractions = some[stays], places[stays], fractions[stays]
    metric = rows.tensor(query.metric)
    moves = _moves(rows, slope, state.scaling, metric, some, counted)
    longest = float(np.linalg.norm(moves[:, :-1], axis=1).max(initial=0.0)) or 1.0
    lots = np.random.default_rng([query.seed, 1])
    begun = InPlay.begin(moves, fractions.cpu().numpy(), places.cpu().numpy(), longest, lots)
    settled = _moved(rows, slope, state.scaling, metric, sure, counted)
    taken = (sure if index is None else index[sure]).cpu().numpy()
    begun = replace(begun, settled=settled, chosen=(taken,))
    idle = torch.cat([torch.nonzero(octave[where] < idle_class)[:, 0] + where.start for where in teacher.rows.ranges()])
    target = np.append(_mapped(whole, metric.cpu()).numpy(), total * counted)
    chosen = play.close_alone(query, turn, begun, idle.cpu().numpy(), target, size, counted)
    return replace(state, chosen=chosen, play=None), teacher.size_of(chosen)


def _moved(rows: DeviceRows, slope: Tensor, scaling: Scaling, metric: Tensor, some: Tensor, counted: bool) -> Array:
    """Σ (M g_j, 1) over some of the rows, on the device."""
    total = torch.zeros(metric.shape[-1], dtype=torch.float64, device=rows.device)
    for where in rows.ranges(len(some)):
        places = some[where]
        total += rows.wide(places, scaling).T @ slope[places]
    return np.append(_mapped(total, metric).cpu().numpy(), len(some) * float(counted))


def _moves(rows: DeviceRows, slope: Tensor, scaling: Scaling, metric: Tensor, some: Tensor, counted: bool) -> Array:
    """(M g_j, 1) of some of the rows, on this machine."""
    found = np.full((len(some), len(metric) + 1), float(counted))
    for where in rows.ranges(len(some)):
        places = some[where]
        moved = _mapped(rows.wide(places, scaling), metric) * slope[places][:, None]
        found[where, :-1] = moved.cpu().numpy()
    return found


# Everything else ---------------------------------------------------------------------------------------


def _at_home(teacher: DeviceTeacher, query: Query[object], state: OnDevice, turn: Turn) -> Answer:
    """Answer from the copy of the rows, with what the device knows of them."""
    home = teacher.at_home()
    if type(query) not in HANDLERS:
        raise QueryRefused(f"teacher {teacher.name} knows no query named {type(query).__name__}")
    after, reply = HANDLERS[type(query)](home, query, _brought(home, state), turn)
    kept = {"balance": state.balance, "drawing": state.drawing, "fractions": state.fractions}
    return OnDevice(**vars(after) | kept), reply


def _brought(home: Teacher, state: OnDevice) -> State:
    """Return the same state as a teacher without a device has it."""
    pulls, drawn, shares = state.balance, state.drawing, state.fractions
    balance = None if pulls is None else Balancing(pulls.model, pulls.octave.cpu().numpy())
    drawing = None
    if drawn is not None:
        places: Positions | None = None if drawn.index is None else drawn.index.cpu().numpy()
        rows: Rows = home.rows if places is None else home.rows.part(places)
        drawing = Drawing(rows, places, drawn.slope.cpu().numpy(), drawn.odds.cpu().numpy())
    fractions = None if shares is None else shares.cpu().numpy()
    return State(**vars(state) | {"balance": balance, "drawing": drawing, "fractions": fractions})


_AS_EVER = queries.Census, queries.Prepare, queries.Recall, queries.Count, queries.Take, queries.ChosenCost
"""Questions that the handlers of any teacher answer without a copy of the rows."""
_HANDLERS: dict[type[Query[object]], Handler] = {kind: HANDLERS[kind] for kind in _AS_EVER} | {
    queries.ColumnSums: _column_sums,
    queries.AskMoments: _moments,
    queries.AskValues: _values,
    queries.Compare: _compare,
    queries.Sample: _sample,
    queries.Balance: _balance,
    queries.Draw: _draw,
    queries.Price: _price,
    queries.Envelope: _envelope,
    queries.RoundAlone: _round_alone,
}
