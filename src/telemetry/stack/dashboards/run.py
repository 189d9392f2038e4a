"""The dashboard of a run: is it complete, does it go on, and is what it records delivered?"""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Row, Stat, Table, Target, TimeSeries, newest

_STATES: Final = {
    "INITIALIZE": "blue",
    "LIVE": "green",
    "DRAINING": "yellow",
    "COMPLETE": "green",
    "INTERRUPTED": "red",
}
_COMPLETENESS: Final = {"complete": "green", "lossy": "orange", "incomplete": "blue", "interrupted": "red"}
_PRODUCERS: Final = {"live": "green", "late": "yellow", "lost": "red", "ended": "gray"}
_PRODUCER: Final = "process, rank, producer"
_ALARM: Final = ((1.0, "red"),)


def _rate(counter: str, by: str = "") -> str:
    head = f"sum by ({by}) " if by else "sum"
    return f"{head}(rate({counter}{{RUN}}[$__rate_interval]))"


_VERDICT: Final = Row(
    "Verdict",
    (
        Stat(
            title="State",
            question="Does the run go on, or how did it end?",
            targets=(Target(f"max by (state) ({newest('telemetry_run_state')}) == 1", "{{state}}"),),
            shows="name",
            colors=_STATES,
        ),
        Stat(
            title="Completeness",
            question="Are all events in the numbers? While a run goes on, the word is always incomplete.",
            targets=(
                Target(
                    f"max by (completeness) ({newest('telemetry_run_completeness')}) == 1",
                    "{{completeness}}",
                ),
            ),
            shows="name",
            colors=_COMPLETENESS,
        ),
        Stat(
            title="Age",
            question="How long has the run been going on?",
            targets=(Target(f"max({newest('telemetry_run_elapsed_seconds')})", "age"),),
            unit="s",
        ),
        Stat(
            title="Events",
            question="How many events are in the numbers?",
            targets=(Target(f"sum({newest('telemetry_events_applied_total')})", "events"),),
        ),
        Stat(
            title="Lost events",
            question="How many events are in no number?",
            targets=(Target(f"sum({newest('telemetry_events_lost')})", "lost"),),
            thresholds=_ALARM,
        ),
        Stat(
            title="Progress",
            question="How much of the expected work is done? Programs say what they expect with `expect`.",
            targets=(
                Target(
                    f"max by (name) ({newest('telemetry_progress_done')}"
                    f" / {newest('telemetry_progress_expected')})",
                    "{{name}}",
                ),
            ),
            unit="percentunit",
            shows="value_and_name",
        ),
    ),
)

_EVENTS: Final = Row(
    "Events",
    (
        TimeSeries(
            title="Events per second",
            question="How much does the job record, and do the numbers keep up with it?",
            targets=(
                Target(_rate("telemetry_events_emitted_total"), "emitted"),
                Target(_rate("telemetry_events_applied_total"), "applied"),
            ),
            unit="cps",
        ),
        TimeSeries(
            title="Lost events by reason",
            question="Which events are in no number, and why?",
            targets=(
                Target("sum(telemetry_events_missing{RUN})", "never arrived"),
                Target("sum by (reason, by) (telemetry_events_dropped{RUN})", "{{reason}}, dropped by the {{by}}"),
            ),
        ),
        TimeSeries(
            title="Producers by status",
            question="How many processes record, and does one of them stay silent?",
            targets=(Target("sum by (status) (telemetry_producers{RUN})", "{{status}}"),),
            stacked=True,
            colors=_PRODUCERS,
            width=8,
        ),
        TimeSeries(
            title="Backlog of the aggregator",
            question="How old are events when they arrive, and how old are the numbers here?",
            targets=(
                Target("max(telemetry_producer_lag_seconds{RUN})", "largest lag of a producer"),
                Target(
                    "max(time() - telemetry_run_snapshot_time_seconds{RUN} unless on (run, instance)"
                    ' telemetry_run_state{state=~"COMPLETE|INTERRUPTED"} == 1)',
                    "age of the numbers",
                ),
            ),
            unit="s",
            width=8,
        ),
        TimeSeries(
            title="Events that wait for their definition",
            question="Are there events that can't be applied yet?",
            targets=(Target("sum(telemetry_events_waiting{RUN})", "waiting"),),
            width=8,
        ),
        Table(
            title="Producers",
            question="Which process recorded how much, and which one lost events?",
            targets=(
                Target(
                    f"sum by ({_PRODUCER}) ({newest('telemetry_producer_received_total')})",
                    "Events",
                ),
                Target(
                    f"sum by ({_PRODUCER}) ({newest('telemetry_producer_lost')})",
                    "Lost",
                ),
                Target(
                    f"max by ({_PRODUCER}) ({newest('telemetry_producer_lag_seconds')})",
                    "Lag",
                ),
            ),
            labels={"process": "Process", "rank": "Rank", "producer": "Producer"},
            units={"Lag": "s"},
            sort_by="Events",
            width=16,
        ),
        TimeSeries(
            title="Nodes",
            question="Do all machines of a run on several machines take part?",
            targets=(Target("sum by (status) (telemetry_nodes{RUN})", "{{status}}"),),
            stacked=True,
            colors=_PRODUCERS,
            width=8,
        ),
    ),
)

_DELIVERY: Final = Row(
    "Backends and aggregator",
    (
        Stat(
            title="Backends",
            question="What does each writer do?",
            targets=(
                Target(
                    f"max by (backend, state) ({newest('telemetry_backend_state')}) == 1",
                    "{{backend}}: {{state}}",
                ),
            ),
            shows="name",
            width=6,
            height=8,
        ),
        TimeSeries(
            title="Backlog of backends",
            question="Which tracker does not keep up?",
            targets=(Target("sum by (backend) (telemetry_backend_queued{RUN})", "{{backend}}"),),
            width=6,
        ),
        TimeSeries(
            title="Trouble of backends",
            question="Which tracker fails, and did its writer have to start again?",
            targets=(
                Target("sum by (backend) (telemetry_backend_failures{RUN})", "{{backend}}: failures in a row"),
                Target("sum by (backend) (telemetry_backend_restarts_total{RUN})", "{{backend}}: restarts"),
                Target("sum by (backend) (telemetry_backend_dropped{RUN})", "{{backend}}: dropped"),
            ),
            width=6,
        ),
        TimeSeries(
            title="Delivered items",
            question="How much gets to each tracker?",
            targets=(Target(_rate("telemetry_backend_written_total", "backend"), "{{backend}}"),),
            unit="cps",
            width=6,
        ),
        TimeSeries(
            title="CPU of the aggregator",
            question="What does the measurement cost?",
            targets=(Target(_rate("telemetry_aggregator_cpu_seconds_total"), "of a core"),),
            unit="percentunit",
            width=8,
        ),
        TimeSeries(
            title="Memory of the aggregator",
            question="Does its memory stay flat?",
            targets=(Target("sum(telemetry_aggregator_memory_bytes{RUN})", "resident"),),
            unit="bytes",
            width=8,
        ),
        TimeSeries(
            title="Disk of the run directory",
            question="Is there room for the rest of the run?",
            targets=(
                Target("min(telemetry_run_disk_free_bytes{RUN})", "free"),
                Target("min(telemetry_run_disk_size_bytes{RUN})", "size"),
            ),
            unit="bytes",
            width=8,
        ),
    ),
)

RUN: Final = Dashboard(
    name="run",
    title="telemetry / Run",
    question="Is the run complete, does it go on, and is what it records delivered?",
    rows=(_VERDICT, _EVENTS, _DELIVERY),
)
