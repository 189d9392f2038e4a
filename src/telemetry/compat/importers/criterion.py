"""Results of Criterion.rs: the folder `target/criterion`, or that of one benchmark.

Each value is one sample: the mean over its iterations, in nanoseconds. The newest results are read, in the folders
`new`: `base` and saved baselines are copies. Results of benchmarks that did not run last time are there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from telemetry.compat.importers.benchmarks import IN_ORDER, Benchmarks
from telemetry.compat.importers.result_file import ResultFile
from telemetry.compat.importers.results import Results

TOOL: Final = "Criterion"
LOOKS_FOR: Final = "Criterion: the folder target/criterion"

_SAMPLE, _BENCHMARK, _ESTIMATES = "sample.json", "benchmark.json", "estimates.json"
_DEPTHS: Final = ("", "new/", "*/new/", "*/*/new/", "*/*/*/new/")
"""Where the results of a benchmark are: its folder has up to three levels."""


def recognizes(file: ResultFile) -> bool:
    """Return whether a folder is one of Criterion."""
    return file.is_folder and next(_folders(file.path), None) is not None


def read(file: ResultFile, results: Results) -> None:
    """Read the samples and the estimates of each benchmark."""
    results.is_dated = False
    results.lacks("single iterations: a value is their mean in one sample")
    results.lacks(f"when each sample was taken: {IN_ORDER}, benchmark after benchmark by name")
    benchmarks = Benchmarks(results)
    benchmarks.begin()
    for folder in _folders(file.path):
        benchmark, sample = (ResultFile(folder / name).json() for name in (_BENCHMARK, _SAMPLE))
        title = benchmarks.title(benchmark["full_id"], folder)
        labels = {"benchmark": title}
        for unit, number in (benchmark.get("throughput") or {}).items():
            results.param(f"{title} {unit} per iteration", number)
        for iterations, time_ns in zip(sample["iters"], sample["times"], strict=True):
            benchmarks.advance(time_ns, 1)
            benchmarks.add("time", "ns", labels, time_ns / iterations)
            benchmarks.add("iterations", "", labels, iterations)
        if (estimates := ResultFile(folder).member(_ESTIMATES)) is not None:
            _state(estimates.json(), title, results)


def _folders(path: Path) -> Iterator[Path]:
    """Yield the folders with results, in order."""
    for depth in _DEPTHS:
        for sample in sorted(path.glob(f"{depth}{_SAMPLE}")):
            if (sample.parent / _BENCHMARK).exists():
                yield sample.parent


def _state(estimates: Mapping[str, Any], title: str, results: Results) -> None:
    for name, estimate in estimates.items():
        if estimate is not None:  # there is no slope in the mode "Flat"
            interval = estimate["confidence_interval"]
            results.state(f"{title} {name}", estimate["point_estimate"], "ns")
            for bound in ("lower_bound", "upper_bound"):
                results.state(f"{title} {name} {bound}", interval[bound], "ns")
