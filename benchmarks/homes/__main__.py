"""Measures the calls of other systems beside ours: `.venv/homes/bin/python -m benchmarks.homes [GROUP …]`.

Each group runs in a process of its own, since captures and frameworks stay loaded.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Final

GROUPS: Final = ("distributed", "torchelastic", "tensorboard", "lightning", "wandb", "rl_insight", "tracelet")


def main(argv: list[str]) -> int:
    if argv[:1] == ["--child"]:
        print(json.dumps(import_module(f"benchmarks.homes.{argv[1]}").measure()))
        return 0
    chosen = argv or list(GROUPS)
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        print(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    for group in chosen:
        command = [sys.executable, "-m", "benchmarks.homes", "--child", group]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        print(group)
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            print(f"  {value:10,.0f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
