"""Last, because it ends them for good: Ctrl-C."""

from __future__ import annotations

import signal


def test_control_c_ends_a_teacher_and_the_server(town):
    """Both stop at once, and say so."""
    for name in ("north", "server"):
        process, *_ = town.processes(name)
        process.send_signal(signal.SIGINT)
        town.wait(lambda name=name: not town.alive(name), 20, f"the end of {name}")
        assert town.said(name).endswith("stopped\n")
