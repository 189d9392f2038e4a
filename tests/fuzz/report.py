"""The outcome of a fuzz run: a line on stdout, results.json, and the table of docs/FUZZING.md."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

RESULTS: Final = Path(__file__).parent / "results.json"
PAGE: Final = Path(__file__).parents[2] / "docs" / "FUZZING.md"
_BEGIN: Final = "<!-- results: written by `python -m tests.fuzz.run --record` -->"
_END: Final = "<!-- end of results -->"
_MIB: Final = 1024 * 1024
_FIELDS: Final = (
    *("inputs", "guided", "from_valid", "evolved", "noise", "executions", "edges", "refusals", "corpus", "lines"),
    *(
        "lines_reached",
        "peak_rss_bytes",
        "grown_bytes",
        "peak_allocated_bytes",
        "measured",
        "slowest_ms",
        "seconds",
    ),
    "seed",
)


def line(facts: dict[str, Any]) -> str:
    """One target on one line."""
    if facts["failure"]:
        return f"{facts['target']:<16} FAILED after {facts['inputs']:,} inputs, seed {facts['seed']}"
    share = facts["from_valid"] / max(1, facts["inputs"])
    return (
        f"{facts['target']:<14} {facts['inputs']:>10,} inputs, {share:.0%} mutations of valid ones, "
        f"{facts['edges']:,} edges, {facts['refusals']:,} kinds of refusal, "
        f"{facts['lines_reached']}/{facts['lines']} lines, corpus {facts['corpus']:,}, "
        f"peak {facts['peak_rss_bytes'] / _MIB:.0f} MiB (grew {facts['grown_bytes'] / _MIB:.0f}), "
        f"one input {facts['peak_allocated_bytes'] / 1024:,.0f} KiB and {facts['slowest_ms']:.0f} ms at most, "
        f"no crash, {facts['seconds']:,.0f} s, seed {facts['seed']}"
    )


def results() -> dict[str, Any]:
    """Return the known results of all targets."""
    known: dict[str, Any] = msgspec.json.decode(RESULTS.read_bytes()) if RESULTS.exists() else {"targets": {}}
    return known


def record(facts: dict[str, Any]) -> None:
    """Takes the place of what was known of this target."""
    known = results()
    known["machine"] = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "atheris": version("atheris"),
        "msgspec": version("msgspec"),
        "platform": sys.platform,
    }
    known["targets"][facts["target"]] = {name: facts[name] for name in _FIELDS}
    known["targets"] = dict(sorted(known["targets"].items()))
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    page = PAGE.read_text()
    before, after = page.partition(_BEGIN)[0], page.partition(_END)[2]
    PAGE.write_text(f"{before}{_BEGIN}\n{table(known)}{_END}{after}")


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| target | inputs | mutations of valid input | edges | kinds of refusal | decoder lines | "
        "corpus | peak RSS | slowest input | time |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, facts in results["targets"].items():
        lines.append(
            f"| `{name}` | {facts['inputs']:,} | {facts['from_valid'] / facts['inputs']:.0%} | {facts['edges']:,} "
            f"| {facts['refusals']:,} | {facts['lines_reached']} of {facts['lines']} | {facts['corpus']:,} "
            f"| {facts['peak_rss_bytes'] / _MIB:.0f} MiB | {facts['slowest_ms']:.0f} ms "
            f"| {facts['seconds']:,.0f} s |"
        )
    return "\n".join(lines) + "\n"
