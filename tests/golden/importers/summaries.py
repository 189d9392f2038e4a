"""What each importer makes of its samples: `python -m tests.golden.importers.summaries [TOOL…]` renews the files.

tests/golden/importers/<tool>/README.md       where the samples come from, and what the tool printed
tests/golden/importers/<tool>/expected.json   sample → summary of the imported run
tests/golden/importers/<tool>/<sample>        a file, or a folder of files that belong together
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from telemetry.cli.commands.import_ import import_file
from telemetry.config import load
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat

HERE: Final = Path(__file__).parent
EXPECTED: Final = "expected.json"
_NO_SAMPLES: Final = ("README.md", EXPECTED, "columns.txt")


def tools() -> list[str]:
    """Return the names of the folders of samples."""
    return sorted(path.parent.name for path in HERE.glob(f"*/{EXPECTED}"))


def samples(tool: str) -> list[Path]:
    """Return the samples of a tool. Files whose names end in `.stdout.txt` have what the tool printed."""
    paths = sorted((HERE / tool).iterdir())
    return [path for path in paths if path.name not in _NO_SAMPLES and not path.name.endswith(".stdout.txt")]


def columns(tool: str) -> dict[str, str]:
    """Return the columns that a user would choose for the samples of a tool."""
    path = HERE / tool / "columns.txt"
    return dict(pair.split("=") for pair in path.read_text().strip().split(",")) if path.exists() else {}


def imported(sample: Path, folder: Path) -> Report:
    """Import a sample into a folder of runs."""
    return import_file(sample, load({"run.dir": str(folder)}).config, columns=columns(sample.parent.name))


def summary(report: Report) -> dict[str, Any]:
    """Return what a run has, so that a reader can compare it with what the tool printed."""
    snapshot, origin = report.snapshot, report.imported
    assert origin is not None
    return {
        "name": snapshot.name,
        "tool": f"{origin.tool} {origin.version}".strip(),
        "completeness": snapshot.completeness,
        "events": snapshot.accounting.applied,
        "took_s": _rounded(snapshot.elapsed_s),
        "counters": {_id(stat): _rounded(stat.value) for stat in snapshot.counters},
        "gauges": {
            _id(stat): [_rounded(value) for value in (stat.min, stat.value, stat.max)] for stat in snapshot.gauges
        },
        "series": {_id(stat): _figures(stat) for stat in snapshot.series},
        "marks": [mark.text for mark in snapshot.marks],
        "params": dict(snapshot.params),
        "unknown": origin.unknown,
        "stated and the same recomputed": sum(figure.is_same for figure in origin.stated),
        "stated": [
            f"{figure.name} = {figure.value:.10g} {figure.unit}".strip()
            + ("" if figure.recomputed is None else f", recomputed {figure.recomputed:.10g}")
            for figure in origin.stated
            if not figure.is_same
        ],
    }


def _id(stat: Any) -> str:
    labels = ",".join(f"{key}={value}" for key, value in sorted(stat.labels.items()))
    return f"{stat.name}{{{labels}}} {stat.unit}".replace("{}", "").strip()


def _figures(stat: SeriesStat) -> dict[str, Any]:
    percentiles = {f"p{key}": _rounded(value) for key, value in stat.percentiles.items() if key in ("50", "99")}
    return {"count": stat.count, "mean": _rounded(stat.mean), **percentiles, "max": _rounded(stat.max)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")


def summaries(tool: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each sample of a tool with the summary of its run."""
    with tempfile.TemporaryDirectory() as folder:
        for sample in samples(tool):
            yield sample.name, summary(imported(sample, Path(folder)))


def main(names: list[str]) -> None:
    """Renew the expected summaries."""
    for tool in names or tools():
        text = json.dumps(dict(summaries(tool)), indent=1, ensure_ascii=False)
        (HERE / tool / EXPECTED).write_text(f"{text}\n")
        print(f"{tool}: {len(samples(tool))} samples")


if __name__ == "__main__":
    main(sys.argv[1:])
