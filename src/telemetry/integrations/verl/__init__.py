"""Capture of verl: what its `Tracking` logs becomes values of steps, under the names that verl uses.

verl has many trackers behind `Tracking.log(data, step)`. Only there do values have both their names and their step:
for RL-Insight, verl replaces `/` in names and drops the step. So `Tracking.log` makes no gauges of RL-Insight's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from telemetry.client import module_level as telemetry
from telemetry.client.step_axes import SHARED
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.rl_insight.events import EVENTS

_OBSERVERS: Final = Observers("verl")
_NUMBERS: Final = frozenset({float, int})


def _patches(module: ModuleType) -> Iterable[Patch]:
    tracking = module.Tracking
    return [
        Patch(tracking, "__init__", _OBSERVERS.after(_record_settings, "Tracking")),
        Patch(tracking, "log", _logging),
    ]


def _logging(original: Callable[..., Any]) -> Callable[..., Any]:
    observed = _OBSERVERS.after(_record_step, "Tracking.log")(original)

    def log(*args: Any, **kwargs: Any) -> Any:
        return EVENTS.without_gauges(observed, *args, **kwargs)

    return log


def _record_settings(  # noqa: PLR0917 – the arguments of verl's class
    result: Any,
    tracking: Any,
    project_name: Any,
    experiment_name: Any,
    default_backend: Any = "console",
    config: Any = None,
) -> None:
    names = {"project_name": project_name, "experiment_name": experiment_name}
    telemetry.params({"verl": names, **(config if isinstance(config, Mapping) else {})})


def _record_step(result: Any, tracking: Any, data: Mapping[str, Any], step: Any, backend: Any = None) -> None:
    numbers = data
    if not _NUMBERS.issuperset(map(type, data.values())):
        numbers = {name: value for name, value in data.items() if value is not None and not isinstance(value, str)}
        for name, value in data.items():
            if isinstance(value, str):
                telemetry.text(name, value, step=step, axis=SHARED.axis(name, step))
    for axis, names in SHARED.split(list(numbers), step).items():
        part = numbers if len(names) == len(numbers) else {name: numbers[name] for name in names}
        telemetry.log(part, step=step, axis=axis)


_CAPTURE: Final = Capture({"verl.utils.tracking": _patches}, "verl")
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall
