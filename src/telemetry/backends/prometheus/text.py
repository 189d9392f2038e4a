"""The text formats: Prometheus text and OpenMetrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from telemetry.backends.prometheus.families import Labels, PrometheusFamily, PrometheusHistogram

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def plain(families: Iterable[PrometheusFamily]) -> bytes:
    lines: list[str] = []
    for family in families:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        lines.append(f"# HELP {name} {family.help.translate(_HELP)}")
        lines.append(f"# TYPE {name} {family.kind}")
        lines += _samples(family)
    return _encoded(lines)


def openmetrics(families: Iterable[PrometheusFamily]) -> bytes:
    lines: list[str] = []
    for family in families:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {family.help.translate(_VALUE)}")
        lines += _samples(family)
    return _encoded([*lines, "# EOF"])


def _samples(family: PrometheusFamily) -> Iterator[str]:
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    for labels, value in family.samples:
        yield f"{name}{_labels(labels)} {_number(value)}"
    for distribution in family.distributions:
        yield from _distribution(family.name, distribution)


def _distribution(name: str, distribution: PrometheusHistogram) -> Iterator[str]:
    labels = _inside(distribution.labels)
    head = f"{name}_bucket{{{labels},le=" if labels else f"{name}_bucket{{le="
    for bound, count in distribution.buckets:
        yield f'{head}"{bound!r}"}} {count}'
    yield f'{head}"+Inf"}} {distribution.count}'
    whole = f"{{{labels}}}" if labels else ""
    yield f"{name}_sum{whole} {_number(distribution.total)}"
    yield f"{name}_count{whole} {distribution.count}"


def _labels(labels: Labels) -> str:
    return f"{{{_inside(labels)}}}" if labels else ""


def _inside(labels: Labels) -> str:
    return ",".join(f'{key}="{value.translate(_VALUE)}"' for key, value in labels)


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
