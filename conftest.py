"""What every test needs: one thread, Ctrl-C that can be heard, and, where asked for, another order."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter

import pytest
from hypothesis import settings

# The same examples in every run, so that a change is judged by what it changed; HYPOTHESIS_PROFILE=search draws others.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    # Tests run side by side, one for each core, on pools so small that threads of linear algebra only wait for each
    # other. Before NumPy is loaded, and for child processes too.
    os.environ.setdefault(_threads, "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --shuffle 7` runs files, and the tests in each, in an order drawn from the seed 7."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in an order drawn from this seed")


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C although a parent may ignore it, as a shell does for what it runs in the background.

    A signal that is handled here is handled anew in every child process; one that is ignored stays ignored there.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_seen: Counter[str] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of a test marked `long`, one in `every` of its cases is left to `make test`; the others are slow."""
    long = item.get_closest_marker("long")
    if long is not None:
        name = item.nodeid.partition("[")[0]
        if _seen[name] % long.kwargs["every"]:
            item.add_marker("slow")
        _seen[name] += 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files in a drawn order, and so the tests in each; a file's tests stay together."""
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    files: dict[object, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    draw, shuffled = random.Random(seed), list(files.values())
    draw.shuffle(shuffled)
    for tests in shuffled:
        draw.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]
