"""`relax.utils.tracking_utils`: one place to log to, with or without the metrics service.

init_tracking(args)
log(args, {"step": step, "train/loss": loss}, "step")
flush_metrics(args, step)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as telemetry
from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.backend_choice import backends_of, environment_of, option, receivers_of
from telemetry.compat.relax.client import get_metrics_client
from telemetry.compat.relax.metrics_service_adapter import (
    axis_of,
    get_metrics_service_adapter,
    init_metrics_service_adapter,
    split,
)
from telemetry.compat.relax.native import REPORTED, missing_run, record_values
from telemetry.compat.relax.serve_url import find_serve_url
from telemetry.compat.relax.values import STEP, Entry, counted, plain_values, refuse, shown
from telemetry.compat.variables import variables
from telemetry.errors import TelemetryError
from telemetry.redaction import mask_secrets

_NAME: Final = "relax"
_SECRETS: Final = frozenset({"wandb_key", "notify_urls"})


def init_tracking(args: Any, primary: bool = True, **kwargs: Any) -> None:
    """Make sure that this process has a run or a service to record to.

    It joins the run of TELEMETRY_ENDPOINT. Without one, the primary process starts a run with the backends of
    `args`. With `use_metrics_service`, a service that is already there is used in place of a new run. `kwargs` have
    no effect.
    """
    uses_service = bool(option(args, "use_metrics_service"))
    to = backends_of(args)
    if os.environ.get(ENDPOINT_VARIABLE) or PROCESS.state in ("live", "inherited"):
        if primary and to:
            _warn_of_backends(to)
        if primary and receivers_of(args):
            warn_once(
                "notify_urls",
                "notify_urls has no effect: this process joins a run that is open already; its notifications are "
                "chosen where it is started, as in: telemetry run --notify URL -- CMD",
            )
    elif uses_service and find_serve_url() is not None:
        pass  # the adapter sends to the service, which has backends of its own
    elif primary:
        _start(args, to)
    elif not uses_service:
        warn_once(
            "secondary",
            f"nothing is recorded in this process: {ENDPOINT_VARIABLE} is not set; start the job with "
            "`telemetry run -- CMD`, or pass the variable on to this process",
        )
    if primary and not missing_run():
        telemetry.params(_settings(args))
    if uses_service:
        init_metrics_service_adapter(args)


def log(args: Any, metrics: Mapping[str, Any], step_key: str) -> bool:
    """Record metrics, with their step under `step_key`. Return False if none is taken.

    With `use_metrics_service` the step waits for `flush_metrics`. Without it, the next step of the key ends it.
    """
    if option(args, "use_metrics_service"):
        adapter = get_metrics_service_adapter() or init_metrics_service_adapter(args)
        return adapter.log(metrics, step_key)
    step, others = split(metrics, step_key)
    if step is None:
        return False
    entries: list[Entry] = [
        (each, plain, None)
        for name, value in others.items()
        for each, plain in plain_values(name, value, counted, refuse)
    ]
    if missing_run() or (others and not entries):
        return False
    axis = axis_of(step_key)
    record_values((axis, step), entries)
    if axis in REPORTED:  # this process uses the service as well, so the step would wait for a report
        telemetry.end_step(step, axis=axis)
    return True


def flush_metrics(args: Any, step: int | None = None) -> bool:
    """Report a step, or the newest one. Without `use_metrics_service` there is nothing to do."""
    if not option(args, "use_metrics_service"):
        return True
    adapter = get_metrics_service_adapter()
    return True if adapter is None else adapter.flush(step)


def log_direct(args: Any, step: int, metrics: Mapping[str, Any]) -> Any:
    """Record metrics of a step and report it. Return the report, or without `use_metrics_service` a bool."""
    if option(args, "use_metrics_service"):
        adapter = get_metrics_service_adapter() or init_metrics_service_adapter(args)
        return adapter.direct_log(step, metrics)
    if not isinstance(metrics, Mapping):
        refuse("log_direct", f"{shown(metrics)} is no dictionary")
        return False
    return log(args, {**metrics, STEP: step}, STEP)


def get_service_metrics() -> dict[str, Any]:
    """Return the backends of the run or service, and the number of steps that this process has not reported.

    Wait at most a second.
    """
    adapter = get_metrics_service_adapter()
    client = get_metrics_client() if adapter is None else adapter.client
    health = client.health_check()
    return {
        "adapters": list(health.get("adapters") or ()),
        "use_wandb": bool(health.get("wandb_enabled")),
        "buffered_steps": client.open_steps,
    }


def _start(args: Any, to: list[str]) -> None:
    """Start the run of this process. If that fails, say why, and let the program go on without a record."""
    from telemetry.client.run import start

    name = option(args, "tb_experiment_name") or option(args, "wandb_group") or option(args, "tb_project_name")
    with variables(environment_of(args)):
        try:
            start(str(name or _NAME)[: limits.NAME_CHARS], to=to, required=False)
        except TelemetryError as error:
            user_warnings.warn(f"nothing is recorded: {error}")


def _settings(args: Any) -> dict[str, Any]:
    """Return the options of the program without secrets."""
    try:
        settings = dict(args if isinstance(args, Mapping) else vars(args))
    except TypeError:
        return {}
    return {str(name): value for name, value in settings.items() if name not in _SECRETS}


def _warn_of_backends(to: list[str]) -> None:
    options = " ".join(f"--to '{text}'" for text in mask_secrets(to))
    warn_once(
        "backends",
        "this process joins a run that is open already; its backends are chosen where it is started, as in: "
        f"telemetry run {options} -- CMD",
    )
