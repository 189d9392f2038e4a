"""Measures everything that has a figure: `python -m benchmarks.run [--only GROUP,…] [--quick]`.

A full run takes about ten minutes. It writes benchmarks/results/<date>.json and rewrites the
table in docs/PERFORMANCE.md. Exit code 1: a figure was missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks import (
    emit,
    end_to_end,
    endurance,
    imports,
    ingest,
    journal,
    perturbation,
    requests,
    snapshot,
    steps,
    table,
    viewer,
)
from benchmarks.harness import Outcome, Size

GROUPS: Final[dict[str, Callable[[Size], Outcome]]] = {
    "emit": emit.run,
    "perturbation": perturbation.run,
    "ingest": ingest.run,
    "requests": requests.run,
    "steps": steps.run,
    "journal": journal.run,
    "snapshot": snapshot.run,
    "end_to_end": end_to_end.run,
    "final_file": endurance.final_file,
    "memory": endurance.memory,
    "imports": imports.run,
    "viewer": viewer.run,
}


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    chosen = list(GROUPS) if args.only is None else args.only.split(",")
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        print(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    size: Size = args.size
    groups = {}
    for name in chosen:
        begin = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        groups[name] = table.entry(GROUPS[name](size), size, time.monotonic() - begin)
    print(table.render(groups))
    if args.out is not None:
        args.out.write_text(json.dumps(groups, indent=1) + "\n")
    elif size == "full":
        document = table.save(table.default_path(), groups)
        table.rewrite(document, list(GROUPS))
    missed = [figure["what"] for group in groups.values() for figure in group["figures"] if figure["met"] is False]
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", help=f"groups, by commas: {', '.join(GROUPS)}")
    parser.add_argument(
        "--quick",
        dest="size",
        action="store_const",
        const="quick",
        default="full",
        help="small sizes, few rounds: prints the table and writes no results",
    )
    parser.add_argument(
        "--tiny",
        dest="size",
        action="store_const",
        const="tiny",
        help="does it run at all; the figures mean nothing",
    )
    parser.add_argument("--out", type=Path, help="write the groups to this JSON file and nothing else")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
