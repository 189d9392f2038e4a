"""`python -m tests.fuzz.run [TARGET …] --inputs N [--seconds S] [--seed K] [--jobs J] [--record]`

Fuzzes each target in processes of its own: a tenth of the inputs guided by coverage, which keeps what reaches
something new in the corpus, the others from there at full speed. With `--record` the figures go to results.json and
into docs/FUZZING.md. Exits with 1 if a target failed; the input that made it fail is then in `--failures`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import msgspec
from tests.fuzz import corpus, report
from tests.fuzz.engine import Result
from tests.fuzz.targets import TARGETS

ROOT: Final = Path(__file__).parents[2]
_GUIDED: Final = 0.1
_COVERAGE: Final = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)")
_GRACE_S: Final = 900.0
_LOG_TAIL: Final = 3_000


def main() -> int:
    args = _arguments()
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for facts in pool.map(lambda name: Job(name, args).run(), args.targets or TARGETS):
            print(report.line(facts), flush=True)
            if facts["failure"]:
                failed += 1
                print(facts["failure"], flush=True)
            elif args.record:
                report.record(facts)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--inputs", type=int, default=200_000, help="for each target")
    parser.add_argument("--seconds", type=float, default=7_200.0, help="for each target, at most")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1, 1 << 31))
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--record", action="store_true", help="write the figures to results.json and docs/FUZZING.md"
    )
    parser.add_argument("--failures", type=Path, default=ROOT / "build" / "fuzz", help="where failing inputs go")
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return args


class Job:
    """One target from its corpus to its corpus."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self._name = name
        self._args = args
        self._wanted = round(args.inputs * TARGETS[name].share)
        self._output = b""

    def run(self) -> dict[str, Any]:
        """Run the target in both phases and return the facts about it."""
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{self._name}-") as place:
            folder = Path(place)
            inputs = folder / "inputs"
            inputs.mkdir()
            for number, data in enumerate([*corpus.load(self._name), *TARGETS[self._name].seeds()]):
                (inputs / f"{number:06d}").write_bytes(data)
            guided = Result()
            if find_spec("atheris") is not None:  # there are systems and Pythons without it
                guided = self._phase("guided", folder, round(self._wanted * _GUIDED))
            volume = self._phase("volume", folder, self._wanted - guided.inputs) if not guided.failure else Result()
            facts = self._facts(guided, volume)
            if not facts["failure"]:
                facts |= msgspec.json.decode(_run(["keep", self._name, str(inputs)], _GRACE_S).splitlines()[-1])
            return facts

    def _phase(self, module: str, folder: Path, inputs: int) -> Result:
        file = folder / f"{module}-result"
        asked = [module, self._name, "--corpus", str(folder / "inputs"), "--result", str(file)]
        asked += ["--inputs", str(inputs), "--seconds", str(self._args.seconds / 2), "--seed", str(self._args.seed)]
        output = _run(asked, self._args.seconds / 2 + _GRACE_S)
        self._output += output
        result = msgspec.json.decode(file.read_bytes(), type=Result) if file.exists() else Result()
        if not result.failure and not result.inputs:
            result.failure = f"the process ended before its time:\n{output[-_LOG_TAIL:].decode(errors='replace')}"
        self._keep_failing(result.failing, folder)
        return result

    def _keep_failing(self, failing: bytes, folder: Path) -> None:
        """Write the failing inputs to files.

        They include those that libFuzzer reports as hanging or as needing too much memory.
        """
        found = [failing] if failing else [path.read_bytes() for path in folder.glob("guided-result.*")]
        for number, data in enumerate(found):
            self._args.failures.mkdir(parents=True, exist_ok=True)
            (self._args.failures / f"{self._name}-{number}.bin").write_bytes(data)

    def _facts(self, guided: Result, volume: Result) -> dict[str, Any]:
        """Both phases together."""
        facts: dict[str, Any] = {"target": self._name, "seed": self._args.seed, "guided": guided.inputs}
        for name in ("inputs", "from_valid", "evolved", "noise", "executions", "measured", "seconds"):
            facts[name] = getattr(guided, name) + getattr(volume, name)
        for name in ("peak_rss_bytes", "peak_allocated_bytes", "slowest_ms"):
            facts[name] = max(getattr(guided, name), getattr(volume, name))
        facts["grown_bytes"] = max(phase.peak_rss_bytes - phase.early_rss_bytes for phase in (guided, volume))
        facts["failure"] = guided.failure or volume.failure
        found = _COVERAGE.findall(self._output)
        facts["edges"] = int(found[-1][0]) if found else 0
        return facts


def _run(arguments: list[str], timeout_s: float) -> bytes:
    command = [sys.executable, "-m", f"tests.fuzz.{arguments[0]}", *arguments[1:]]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"") + b"\nit took too long and was killed\n"
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
