"""Run the benchmarks and print one table each."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    ablation,
    bounds,
    classes,
    drop,
    federation,
    imports,
    memory,
    pipelines,
    privacy,
    scale,
    small,
)
from benchmarks.oracle import run as oracle
from benchmarks.table import show

OWN = {"oracle": oracle.main, "ablation": ablation.main, "scale": scale.main}
"""Benchmarks with options of their own."""
BENCHMARKS = {
    "small": small.run,
    "memory": memory.run,
    "privacy": privacy.run,
    "imports": imports.run,
    "federation": federation.run,
}
NAMED = {
    "bounds": bounds.run,
    "drop": drop.run,
    "pipelines": pipelines.run,
    "classes": classes.run,
}
"""Benchmarks on published tables, run where they are named: $SUPERTEACH_DATA names the tables' folder."""
QUICK = "5k10,50k10,20k30,r5k10,n30,rare,four-classes,isolated50k10,dual5k10"
"""Pools of the oracle that a run of everything measures."""
PARTS = {f"privacy.{part}": table for part, table in privacy.PARTS.items()}
"""Single tables, measured where they are named."""


def main() -> None:
    """Run what is named, or everything."""
    if sys.argv[1:2] and sys.argv[1] in OWN:
        OWN[sys.argv[1]](sys.argv[2:])
        return
    known = BENCHMARKS | NAMED | PARTS
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=f"{__doc__} With options of their own: {', '.join(OWN)}."
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"any of {', '.join(known)} (default: all on our own data)"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the largest pools")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no benchmark named {unknown[0]!r}; there are {', '.join([*OWN, *known])}")
    if not arguments.names:
        oracle.main(["--pools", QUICK, "--seeds", "2" if arguments.quick else "5"])
    for name in arguments.names or BENCHMARKS:
        for table in [PARTS[name](arguments.quick)] if name in PARTS else (BENCHMARKS | NAMED)[name](arguments.quick):
            show(table)


if __name__ == "__main__":
    main()
