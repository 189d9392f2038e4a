"""Results: one JSON file a day, and the table in docs/PERFORMANCE.md."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import ROOT, Outcome, Size, machine

SCHEMA_VERSION: Final = 1
RESULTS: Final = ROOT / "benchmarks" / "results"
DOCUMENT: Final = ROOT / "docs" / "PERFORMANCE.md"
_BEGIN: Final = "<!-- figures: written by `make bench` -->"
_END: Final = "<!-- end of figures -->"
_HEAD: Final = "| ratio to the best peer | what | held | measured | peer | met |\n|---|---|---|---|---|---|"


def entry(outcome: Outcome, size: Size, seconds: float) -> dict[str, Any]:
    """One group as it stands in the results file."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "size": size,
        "seconds": round(seconds, 1),
        "figures": [asdict(figure) | {"met": figure.met} for figure in outcome.figures],
        "measurements": outcome.measurements,
    }


def default_path() -> Path:
    return RESULTS / f"{time.strftime('%Y-%m-%d', time.gmtime())}.json"


def save(path: Path, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the groups to the file; groups that did not run keep what an earlier run of the day found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(path.read_bytes())["groups"] if path.exists() else {}
    document = {"schema_version": SCHEMA_VERSION, "machine": machine(), "groups": {**earlier, **groups}}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document


def render(groups: Mapping[str, Any]) -> str:
    """The table, ratio first."""
    rows = [_row(figure) for group in groups.values() for figure in group["figures"]]
    return "\n".join([_HEAD, *rows])


def rewrite(document: Mapping[str, Any], order: list[str]) -> None:
    """Replaces what stands between the markers of docs/PERFORMANCE.md."""
    groups = {name: document["groups"][name] for name in order if name in document["groups"]}
    text = DOCUMENT.read_text()
    before, rest = text.split(_BEGIN, 1)
    after = rest.split(_END, 1)[1]
    body = f"{_conditions(document, groups)}\n\n{render(groups)}"
    DOCUMENT.write_text(f"{before}{_BEGIN}\n{body}\n{_END}{after}")


def _conditions(document: Mapping[str, Any], groups: Mapping[str, Any]) -> str:
    found = document["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    first, last = min(group["when"] for group in groups.values()), max(group["when"] for group in groups.values())
    return (
        f"{found['cpus']} × {found['cpu']}, {found['memory_bytes'] / 2**30:.0f} GiB, {found['system']}, "
        f"Python {found['python']}; {packages}. Measured from {first} to {last}."
    )


def _row(figure: Mapping[str, Any]) -> str:
    ratio = "" if figure["ratio"] is None else f"**× {significant(figure['ratio'])}**"
    sign = "≤" if figure["better"] == "lower" else "≥"
    held = "" if figure["limit"] is None else f"{sign} {_quantity(figure['limit'], figure['unit'])}"
    peer = figure["peer"]
    if figure["peer_value"] is not None:
        peer += f": {_quantity(figure['peer_value'], figure['unit'])}"
    met = {None: "", True: "yes", False: "**no**"}[figure["met"]]
    measured = _quantity(figure["value"], figure["unit"])
    return f"| {ratio} | {figure['what']} | {held} | {measured} | {peer} | {met} |"


def _quantity(value: float, unit: str) -> str:
    return f"× {value:.3f}" if unit.startswith("×") else f"{significant(value)} {unit}"


def significant(value: float) -> str:
    """Three digits, and thousands apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
