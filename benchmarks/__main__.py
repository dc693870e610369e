"""Run the benchmarks and print one table each."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    ablation,
    asynchronous,
    bounds,
    core,
    drop,
    dual,
    federation,
    imports,
    match,
    memory,
    pipelines,
    privacy,
    scale,
    small,
)
from benchmarks.table import show

BENCHMARKS = {
    "dual": dual.run,
    "asynchronous": asynchronous.run,
    "match": match.run,
    "small": small.run,
    "memory": memory.run,
    "privacy": privacy.run,
    "imports": imports.run,
    "federation": federation.run,
}
PARTS = {f"{name}.{part}": table for name, parts in (("privacy", privacy.PARTS),) for part, table in parts.items()}
"""Single tables, measured where they are named."""
NAMED = {"bounds": bounds.run, "drop": drop.run, "pipelines": pipelines.run, "out-of-reach": pipelines.out_of_reach}
"""Benchmarks on published tables, run where they are named: $SUPERTEACH_DATA names the tables' folder."""


def main() -> None:
    """Run what is named, or everything; `scale` has cases and options of its own, and is run by that name alone."""
    if sys.argv[1:2] == ["scale"]:
        scale.main(sys.argv[2:])
        return
    for own in (core, ablation):
        if sys.argv[1:2] == [own.__name__.split(".")[-1]]:
            own.main(sys.argv[2:])
            return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"any of {', '.join(BENCHMARKS | NAMED | PARTS)} (default: all of our own data)",
    )
    parser.add_argument("--quick", action="store_true", help="leave out the largest pools")
    arguments = parser.parse_args()
    known = BENCHMARKS | NAMED | PARTS
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no benchmark named {unknown[0]!r}; there are {', '.join(known)}")
    for name in arguments.names or BENCHMARKS:
        for table in [PARTS[name](arguments.quick)] if name in PARTS else (BENCHMARKS | NAMED)[name](arguments.quick):
            show(table)


if __name__ == "__main__":
    main()
