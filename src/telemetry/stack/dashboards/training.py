"""The dashboard of a training job: loss, learning rate, and how fast steps are."""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Row, Stat, Target, TimeSeries, Variable, newest

_AXIS: Final = 'RUN,axis=~"$axis"'
AXIS: Final = Variable(
    name="axis", label="Axis", query="label_values(telemetry_steps_closed_total{RUN}, axis)", has_all=True
)


def _values(pattern: str) -> str:
    return f'telemetry_step_value{{{_AXIS},name=~"{pattern}"}}'


_RATE: Final = f"sum by (axis) (rate(telemetry_steps_closed_total{{{_AXIS}}}[$__rate_interval]))"

TRAINING: Final = Dashboard(
    name="training",
    title="telemetry / Training",
    question="Does the loss fall, and how fast are steps?",
    variables=(
        AXIS,
        Variable(
            name="name",
            label="Names",
            query=f"label_values(telemetry_step_value{{{_AXIS}}}, name)",
            has_many=True,
        ),
    ),
    rows=(
        Row(
            "Now",
            (
                Stat(
                    title="Newest step",
                    question="How far is the job?",
                    targets=(
                        Target(
                            f"max by (axis) ({newest('telemetry_step_newest', _AXIS)})",
                            "{{axis}}",
                        ),
                    ),
                    unit="none",
                    shows="value_and_name",
                    width=6,
                ),
                Stat(
                    title="Steps per second",
                    question="How fast is the job?",
                    targets=(Target(_RATE, "{{axis}}"),),
                    over_time=True,
                    width=6,
                ),
                Stat(
                    title="Open steps",
                    question="How many steps wait for a rank?",
                    targets=(Target(f"sum by (axis) ({newest('telemetry_steps_open', _AXIS)})", "{{axis}}"),),
                    width=6,
                ),
                Stat(
                    title="Steps without all ranks",
                    question="How many steps were closed although a rank had not ended them?",
                    targets=(
                        Target(
                            f"sum by (axis) ({newest('telemetry_steps_timed_out_total', _AXIS)})",
                            "{{axis}}",
                        ),
                    ),
                    thresholds=((1.0, "orange"),),
                    width=6,
                ),
            ),
        ),
        Row(
            "Learning",
            (
                TimeSeries(
                    title="Loss",
                    question="Does the loss fall?",
                    targets=(Target(_values("(?i).*loss.*"), "{{name}}"),),
                    least=None,
                    height=10,
                ),
                TimeSeries(
                    title="Learning rate",
                    question="Is the schedule the one that was meant?",
                    targets=(Target(_values("(?i)(.*[^a-z])?(lr|learning_?rate)([^a-z].*)?"), "{{name}}"),),
                    unit="none",
                    height=10,
                ),
            ),
        ),
        Row(
            "Speed",
            (
                TimeSeries(
                    title="Speed of steps",
                    question="Does the job become slower?",
                    targets=(Target(_RATE, "{{axis}}"),),
                ),
                TimeSeries(
                    title="Time of a step",
                    question="How long does a step take on average?",
                    targets=(Target(f"1 / ({_RATE} > 0)", "{{axis}}"),),
                    unit="s",
                ),
            ),
        ),
        Row(
            "Chosen names",
            (
                TimeSeries(
                    title="$name",
                    question="How does this value develop? Each scrape has the newest step, not every step.",
                    targets=(Target(f'telemetry_step_value{{{_AXIS},name=~"$name"}}', "{{axis}}"),),
                    least=None,
                    repeat="name",
                    width=8,
                ),
            ),
        ),
    ),
)
