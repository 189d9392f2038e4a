"""Bodies of the Relax routes: what they take, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan, nan
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.client.wall_time import monotonic_of
from telemetry.compat.relax.values import STEP
from telemetry.wire.control import StepDistribution
from telemetry.wire.events import Name, Step

_Value = float | bool | str | list[Any] | dict[str, Any] | None
_Tags = Annotated[dict[str, str], Meta(max_length=limits.LABEL_COUNT)] | None
_LongText = Annotated[str, Meta(max_length=64 * limits.KIB)]
_DEPTH: Final = 8  # of dictionaries and lists in a value
_PHASES: Final = ("X", "B", "E", "i", "I")


class LogMetric(Struct, kw_only=True, frozen=True):
    """One value of a step."""

    step: Step
    metric_name: Name
    metric_value: _Value
    """A number, a text, a dictionary, a list of numbers, or timeline events. Null: a number that is not finite."""
    tags: _Tags = None
    axis: Name = STEP


class LogMetricsBatch(Struct, kw_only=True, frozen=True):
    """Values of a step by name."""

    step: Step
    metrics: Annotated[dict[Name, _Value], Meta(max_length=limits.PARAMS_PER_RECORD)]
    tags: _Tags = None
    axis: Name = STEP


class ReportStep(Struct, kw_only=True, frozen=True):
    """The report of a step."""

    step: Step
    axis: Name = STEP
    wait_s: Annotated[float, Meta(ge=0.0, le=600.0)] | None = None
    """Longest wait for backends, in seconds. Null: as the gateway was told."""


class ClearMetrics(Struct, kw_only=True, frozen=True):
    """A step whose values are to be forgotten; null: all steps that are not reported yet."""

    step: Step | None = None
    axis: Name = STEP


class LogError(Struct, kw_only=True, frozen=True):
    """An error of the program."""

    error_message: _LongText
    error_traceback: _LongText | None = None


class StepQuery(Struct, kw_only=True, frozen=True):
    """A step; without it, the newest values of the axis."""

    step: Step | None = None
    axis: Name = STEP


class Logged(Struct, kw_only=True, frozen=True):
    """The answer to a request that logs values."""

    status: Literal["success", "pending"]
    """`success`: what `outcomes` calls recorded is in the run. `pending`: the run has not confirmed it yet."""
    message: str
    outcomes: dict[str, str]
    """What each value was recorded as, or why it was not."""


class Done(Struct, kw_only=True, frozen=True):
    """The answer of a call that has nothing else to say."""

    status: Literal["success", "pending"] = "success"
    message: str


class Health(Struct, kw_only=True, frozen=True):
    """The state of the service."""

    status: Literal["healthy"] = "healthy"
    service: Literal["metrics"] = "metrics"
    adapters: list[str]
    wandb_enabled: bool
    backends: dict[str, str]
    """The state of each backend of the run."""


class Metrics(Struct, kw_only=True, frozen=True):
    """Values of a step, or the newest values of an axis."""

    status: Literal["success"] = "success"
    message: str
    metrics: dict[str, float | str | StepDistribution | None]
    """A number, a text, a distribution, or null for a number that is not finite."""
    step: int | None
    reported: bool
    """False if the step can still be reported or cleared."""


def problem_of(event: Mapping[str, Any]) -> str:
    """Return why an event of a timeline can't be recorded, or an empty text."""
    for key in ("name", "ph", "ts"):
        if key not in event:
            return f"it has no {key!r}"
    if event["ph"] not in _PHASES:
        return f"the phase {str(event['ph'])[:20]!r} is neither a span nor a mark"
    if not isinstance(event.get("args") or {}, dict):
        return "its args are not an object"
    if not all(isinstance(event.get(key), int | float | str | None) for key in ("pid", "tid")):
        return "its pid or tid is neither a number nor a text"
    return _time_problem(event)


def _time_problem(event: Mapping[str, Any]) -> str:
    try:
        start_us, duration_us = float(event["ts"]), float(event.get("dur", 0.0))
    except (TypeError, ValueError):
        return "its times are not numbers"
    except OverflowError:  # an integer of hundreds of digits
        return "its times are not finite"
    end_us = start_us + duration_us
    if not isfinite(end_us * 1_000) or duration_us < 0.0:
        return "its times are not finite, or its duration is negative"
    if monotonic_of(round(start_us * 1_000)) is None:
        return "it began before this machine started; times are Unix microseconds"
    if monotonic_of(round(end_us * 1_000)) is None:
        return "it ends too far in the future"
    return ""


def with_nan(value: Any, depth: int = 0) -> Any:
    """Return a value with NaN for each null, and for each list that holds nothing else.

    JSON has no NaN. So clients send null for it, also within the lists that they make of tensors.
    """
    if value is None:
        return nan
    if depth >= _DEPTH or not isinstance(value, dict | list) or _is_timeline(value):
        return value
    if isinstance(value, dict):
        return {key: with_nan(item, depth + 1) for key, item in value.items()}
    values = [with_nan(item, depth + 1) for item in value]
    return nan if values and all(type(item) is float and isnan(item) for item in values) else values


def _is_timeline(value: Any) -> bool:
    event = value[0] if isinstance(value, list) and value else value
    return isinstance(event, dict) and "ph" in event and "ts" in event
