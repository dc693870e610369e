"""Sites under a promise behind a line that keeps what it carries, without a network; lessons through the conductor."""

from __future__ import annotations

from superteach.line import wire
from superteach.organisations.conductor import Order, conduct
from superteach.organisations.site import Site
from superteach.organisations.site.rows import open_holding
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.rosters import Rosters
from superteach.settings import Settings
from tests.identities import identity
from tests.loopback import Loopback

NAMES, WIDTH, ROWS = ["north", "south", "west"], 3, 400
COLUMNS = tuple(f"x{column}" for column in range(WIDTH))
GOAL = [0.8, -0.5, 0.3, 0.1]
PEOPLE = {name: identity(name) for name in (*NAMES, "east")}


class Carrier(Loopback):
    """A line that keeps what it carries, and may change a message on its way."""

    def __init__(self, doors):
        super().__init__(doors)
        self.sent, self.change = [], lambda name, message, data: data

    def ask(self, requests, seconds):
        found = {}
        for name, data in requests.items():
            changed = self.change(name, wire.unpack(data), data)
            if changed is not None:
                found |= super().ask({name: changed}, seconds)
            self.sent.append((name, data, found.get(name)))
        return found


def open_site(home, name, policy):
    """As a lesson's process does it, from what is on disk."""
    holding = open_holding(name, home / "rows.parquet", "y")
    holding.check(policy)
    guard = Guard(policy, Audit(home / "audit.jsonl"))
    ledger = Ledger(home / "ledger", policy.epsilon, policy.delta)
    rosters = Rosters(PEOPLE[name], policy.least_teachers, policy.teachers)
    return Site(name, holding, guard, "c", ledger=ledger, rosters=rosters)


def teach(town, promise, lesson="lesson", names=NAMES, goal=GOAL, order=None, **settings):
    """One lesson through the conductor, up to its files."""
    settings = Settings(**{"budget": 100, "promise": promise, "rounding": "alone", **settings})
    return conduct(
        town.line, lesson, Order(list(names), "logistic", goal, settings=settings, **(order or {})), town.folder
    )


def chosen(town, lesson="lesson"):
    return {
        name: [int(row) for row in (site.guard.policy.folder / f"{lesson}.csv").read_text().split()[1:]]
        for name, site in town.sites.items()
    }
