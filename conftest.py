"""What every test needs: Ctrl-C that can be heard, and, where asked for, another order."""

from __future__ import annotations

import random
import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --shuffle 7` runs files, and the tests in each, in an order drawn from the seed 7."""
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run the tests in an order drawn from this seed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C although a parent may ignore it, as a shell does for what it runs in the background.

    A signal that is handled here is handled anew in every child process; one that is ignored stays ignored there.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
