"""The rules of Prometheus for runs: recording rules for rates, and alerts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

STALLED_S: Final = 600
"""Time without an event of the job after which a live run counts as stalled."""
_SILENT_S: Final = 60
_FULL: Final = 0.05
_NEARLY_ALL: Final = 0.95
_THROTTLES: Final = "hardware|hardware_thermal|software_thermal|power_brake"
"""Reasons that somebody can mend. A GPU at its power cap is in order."""
_LIVE: Final = 'telemetry_run_state{state="LIVE"} == 1'
_OVER: Final = "COMPLETE|INTERRUPTED"
_REMEMBERED: Final = "15m"
"""Time for which an alert about a run that has ended stays: its last values are scraped only once."""
_OF_RUN: Final = "on (run, instance)"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A query that Prometheus stores under a name of its own."""

    record: str
    query: str


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A query whose answers are alerts."""

    name: str
    query: str
    hold: str = "0s"
    """Time for which the query must have an answer."""
    severity: Literal["critical", "warning"] = "warning"
    summary: str
    """Message of what happened, with `{{ $labels.x }}`."""
    action: str
    """Message of what to do."""


RECORDINGS: Final = (
    Recording(
        record="run:telemetry_events_applied:rate1m",
        query="sum by (run) (rate(telemetry_events_applied_total[1m]))",
    ),
    Recording(
        record="run:telemetry_steps_closed:rate1m",
        query="sum by (run, axis) (rate(telemetry_steps_closed_total[1m]))",
    ),
    Recording(
        record="run:telemetry_events_lost:ratio",
        query="sum by (run) (telemetry_events_lost) / (sum by (run) (telemetry_events_emitted_total) > 0)",
    ),
)

ALERTS: Final = (
    Alert(
        name="TelemetryRunNotComplete",
        query=(
            f'last_over_time(telemetry_run_completeness{{completeness!="complete"}}[{_REMEMBERED}]) == 1'
            f' and {_OF_RUN} last_over_time(telemetry_run_state{{state=~"{_OVER}"}}[{_REMEMBERED}]) == 1'
        ),
        summary="Run {{ $labels.run }} has ended and is {{ $labels.completeness }}.",
        action="Read the first lines of `telemetry report {{ $labels.run }}`.",
    ),
    Alert(
        name="TelemetryRunLosesEvents",
        query="delta(telemetry_events_lost[5m]) > 0",
        summary="Run {{ $labels.run }} loses events.",
        action="`telemetry status {{ $labels.run }} --json` has the reasons; docs/METRICS.md explains them.",
    ),
    Alert(
        name="TelemetryRunStalled",
        query=(
            "telemetry_run_snapshot_time_seconds - telemetry_run_last_event_time_seconds"
            f" > {STALLED_S} and {_OF_RUN} ({_LIVE})"
        ),
        severity="critical",
        summary="Run {{ $labels.run }} has recorded nothing for {{ $value | humanizeDuration }}.",
        action="See whether its program hangs: `telemetry top {{ $labels.run }}`.",
    ),
    Alert(
        name="TelemetryNumbersStandStill",
        query=(
            f"time() - telemetry_run_snapshot_time_seconds > {_SILENT_S}"
            f' unless {_OF_RUN} telemetry_run_state{{state=~"{_OVER}"}} == 1'
        ),
        hold="1m",
        severity="critical",
        summary="The numbers of run {{ $labels.run }} are {{ $value | humanizeDuration }} old.",
        action="See whether its aggregator lives: `telemetry status {{ $labels.run }}`.",
    ),
    Alert(
        name="TelemetryProducersLost",
        query='telemetry_producers{status="lost"} > 0',
        hold="1m",
        summary="{{ $value }} processes of run {{ $labels.run }} are silent.",
        action="`telemetry status {{ $labels.run }} --json` names them.",
    ),
    Alert(
        name="TelemetryBackendFails",
        query='telemetry_backend_state{state=~"retrying|failed|undelivered"} == 1',
        hold="1m",
        summary="The backend {{ $labels.backend }} of run {{ $labels.run }} is {{ $labels.state }}.",
        action="`telemetry status {{ $labels.run }} --json` has its last error. The run itself goes on.",
    ),
    Alert(
        name="TelemetryTargetDown",
        query='up{run!=""} == 0',
        hold="1m",
        summary="Prometheus can't reach run {{ $labels.run }} at {{ $labels.instance }}.",
        action="See whether its writer lives: `telemetry status {{ $labels.run }} --json`, at `backends`.",
    ),
    Alert(
        name="TelemetryGpuThrottled",
        query=(
            "max by (run, instance, node, gpu, reason)"
            f' ({{__name__=~"(.+_)?gpu_throttled",reason=~"{_THROTTLES}"}}) == 1'
        ),
        hold="2m",
        summary="GPU {{ $labels.gpu }} of run {{ $labels.run }} is slowed down: {{ $labels.reason }}.",
        action="Look at its temperature and its power supply.",
    ),
    Alert(
        name="TelemetryMemoryNearlyFull",
        query=(
            'max by (run, instance, node) ({__name__=~"(.+_)?(host|container)_memory_percent_ratio"})'
            f" > {_NEARLY_ALL}"
        ),
        hold="1m",
        severity="critical",
        summary="{{ $value | humanizePercentage }} of the memory is in use beside run {{ $labels.run }}.",
        action="Use less memory: the kernel kills processes when none is left.",
    ),
    Alert(
        name="TelemetryDiskNearlyFull",
        query=f"telemetry_run_disk_free_bytes / telemetry_run_disk_size_bytes < {_FULL}",
        hold="1m",
        severity="critical",
        summary="The disk of run {{ $labels.run }} has {{ $value | humanizePercentage }} left.",
        action="Free some space. Without space the run goes on, but its percentiles are not exact.",
    ),
)


def text() -> str:
    """Return the content of a file of rules."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    """Yield the lines of the file. Texts have JSON's form, which YAML reads."""
    yield "groups:"
    yield "  - name: telemetry"
    yield "    rules:"
    for recording in RECORDINGS:
        yield f"      - record: {recording.record}"
        yield f"        expr: {json.dumps(recording.query)}"
    yield "  - name: telemetry-alerts"
    yield "    rules:"
    for alert in ALERTS:
        yield f"      - alert: {alert.name}"
        yield f"        expr: {json.dumps(alert.query)}"
        yield f"        for: {alert.hold}"
        yield f"        labels: {{severity: {alert.severity}}}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(alert.summary)}"
        yield f"          description: {json.dumps(alert.action)}"
