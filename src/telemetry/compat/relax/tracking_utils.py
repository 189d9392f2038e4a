"""`relax.utils.tracking_utils`: one place to log to, with or without the metrics service.

init_tracking(args)
log(args, {"step": step, "train/loss": loss}, "step")
flush_metrics(args, step)
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as telemetry
from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.client import get_metrics_client
from telemetry.compat.relax.metrics_service_adapter import (
    axis_of,
    get_metrics_service_adapter,
    init_metrics_service_adapter,
    split,
)
from telemetry.compat.relax.native import is_declared, is_in_run, missing_run, record_values
from telemetry.compat.relax.serve_url import find_serve_url
from telemetry.compat.relax.values import STEP, Entry, count_lost, counted, plain_values, refuse_value, shown
from telemetry.compat.variables import variables
from telemetry.config.load import env_name
from telemetry.config.notify_urls import KEY, joined
from telemetry.config.notify_urls import split as split_urls
from telemetry.config.plugins.choice import Choice
from telemetry.errors import TelemetryError
from telemetry.redaction import mask_secrets

_NAME: Final = "relax"
_SECRETS: Final = frozenset({"wandb_key", "notify_urls"})
_FREQUENCY: Final = re.compile(r"(?<=[?&])freq=\d*(&|$)")
_WANDB_MODES: Final = {"offline": "offline", "dryrun": "offline", "online": "online", "shared": "online"}


def init_tracking(args: Any, primary: bool = True, **kwargs: Any) -> None:
    """Make sure that this process has a run or a service to record to.

    It joins the run of TELEMETRY_ENDPOINT. Without one, the primary process starts a run with the backends of
    `args`. With `use_metrics_service`, a service that is already there is used in place of a new run. `kwargs` have
    no effect.
    """
    uses_service = bool(_option(args, "use_metrics_service"))
    if is_in_run():
        if primary:
            _warn_of_options(args)
    elif uses_service and find_serve_url() is not None:
        pass  # the adapter sends to the service, which has backends of its own
    elif primary:
        _start(args)
    elif not uses_service:
        warn_once(
            "secondary",
            f"nothing is recorded in this process: {ENDPOINT_VARIABLE} is not set; start the job with "
            "`telemetry run -- CMD`, or pass the variable on to this process",
        )
    if primary and not missing_run():
        options = args if isinstance(args, Mapping) else getattr(args, "__dict__", {})
        telemetry.params({str(name): value for name, value in options.items() if name not in _SECRETS})
    if uses_service:
        init_metrics_service_adapter(args)


def log(args: Any, metrics: Mapping[str, Any], step_key: str) -> bool:
    """Record metrics, with their step under `step_key`. Return False if none is taken.

    With `use_metrics_service` the step waits for `flush_metrics`. Without it, the next step of the key ends it.
    """
    if _option(args, "use_metrics_service"):
        return init_metrics_service_adapter(args).log(metrics, step_key)
    step, others = split(metrics, step_key)
    if step is None:
        count_lost(len(metrics) if isinstance(metrics, Mapping) else 1)
        return False
    entries: list[Entry] = [
        (each, plain, None)
        for name, value in others.items()
        for each, plain in plain_values(name, value, counted, refuse_value)
    ]
    if missing_run() or (others and not entries):
        return False
    axis = axis_of(step_key)
    record_values((axis, step), entries)
    if is_declared(axis):  # this process uses the service as well, so the step would wait for a report
        telemetry.end_step(step, axis=axis)
    return True


def flush_metrics(args: Any, step: int | None = None) -> bool:
    """Report a step, or the newest one. Without `use_metrics_service` there is nothing to do."""
    adapter = get_metrics_service_adapter() if _option(args, "use_metrics_service") else None
    return True if adapter is None else adapter.flush(step)


def log_direct(args: Any, step: int, metrics: Mapping[str, Any]) -> Any:
    """Record metrics of a step and report it. Return the report, or without `use_metrics_service` a bool."""
    if _option(args, "use_metrics_service"):
        return init_metrics_service_adapter(args).direct_log(step, metrics)
    if not isinstance(metrics, Mapping):
        refuse_value("log_direct", f"{shown(metrics)} is no dictionary")
        return False
    return log(args, {**metrics, STEP: step}, STEP)


def get_service_metrics() -> dict[str, Any]:
    """Return the backends of the run or service, and the number of steps that this process has not reported.

    Wait at most a second.
    """
    adapter = get_metrics_service_adapter()
    client = adapter.client if adapter else get_metrics_client()
    health = client.health_check()
    return {
        "adapters": list(health.get("adapters") or ()),
        "use_wandb": bool(health.get("wandb_enabled")),
        "buffered_steps": len(client.open_steps),
    }


# --- options of the program --------------------------------------------------------------------------


def backends_of(args: Any) -> list[str]:
    """Return the backends of `use_tensorboard`, `use_wandb`, `use_clearml` and `timeline_dump_dir`, as for `--to`.

    Example:
        backends_of(args)  # ["tensorboard:logdir=out/tensorboard_log", "wandb:project=mine,mode=offline"]

    `args` is a namespace or a dictionary.
    """
    project, experiment = _option(args, "tb_project_name"), _option(args, "tb_experiment_name")
    backends: dict[str, dict[str, Any]] = {}
    if _option(args, "use_tensorboard"):
        save = _option(args, "save")
        run = os.path.join(str(project or _NAME), str(experiment or time.strftime("%Y%m%d_%H%M%S")))
        folder = os.path.join(str(save), "tensorboard_log") if save else os.path.join("tensorboard_log", run)
        backends["tensorboard"] = {"logdir": os.environ.get("TENSORBOARD_DIR") or folder}
    mode, group = str(_option(args, "wandb_mode") or os.environ.get("WANDB_MODE")), _option(args, "wandb_group")
    if _option(args, "use_wandb") and mode != "disabled":
        backends["wandb"] = {
            "project": _option(args, "wandb_project") or project,
            "entity": _option(args, "wandb_team"),
            "name": experiment or group,
            "group": group,
            "mode": _WANDB_MODES.get(mode),
            "folder": _option(args, "wandb_dir"),
        }
    if _option(args, "use_clearml"):
        backends["clearml"] = {
            "project": project or os.environ.get("CLEARML_PROJECT"),
            "name": experiment or os.environ.get("CLEARML_TASK"),
            "tags": os.environ.get("CLEARML_TAGS"),
        }
    if folder := _option(args, "timeline_dump_dir"):
        backends["timeline"] = {"dir": folder}
    return [
        str(Choice(kind, kind, {name: str(value) for name, value in options.items() if value}))
        for kind, options in backends.items()
    ]


def environment_of(args: Any) -> dict[str, str]:
    """Return environment variables that no option may carry: key and address of W&B, receivers of notifications.

    The parameter `freq` of a receiver, the number of steps between two messages, is left out: notifications tell of
    events.
    """
    given = _option(args, "notify_urls") or ""
    texts = [given] if isinstance(given, str) else map(str, given)
    urls = [_FREQUENCY.sub("", url).rstrip("?&") for text in texts for url in split_urls(text)]
    pairs = {env_name(KEY): joined(urls)}
    if _option(args, "use_wandb"):
        pairs |= {"WANDB_API_KEY": _option(args, "wandb_key"), "WANDB_BASE_URL": _option(args, "wandb_host")}
    return {name: str(value) for name, value in pairs.items() if value}


def _option(args: Any, name: str) -> Any:
    """Return an option of a namespace or a dictionary; None if it is not there."""
    return args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)


def _start(args: Any) -> None:
    """Start the run of this process. If that fails, say why, and let the program go on without a record."""
    from telemetry.client.run import start

    name = _option(args, "tb_experiment_name") or _option(args, "wandb_group") or _option(args, "tb_project_name")
    with variables(environment_of(args)):
        try:
            start(str(name or _NAME)[: limits.NAME_CHARS], to=backends_of(args), required=False)
        except TelemetryError as error:
            user_warnings.warn(f"nothing is recorded: {error}")


def _warn_of_options(args: Any) -> None:
    """Name the options that have no effect in a run that is open already."""
    if options := " ".join(f"--to '{text}'" for text in mask_secrets(backends_of(args))):
        warn_once(
            "backends",
            "this process joins a run that is open already; its backends are chosen where it is started, as in: "
            f"telemetry run {options} -- CMD",
        )
    if _option(args, "notify_urls"):
        warn_once(
            "notify_urls",
            "notify_urls has no effect: this process joins a run that is open already; its notifications are "
            "chosen where it is started, as in: telemetry run --notify URL -- CMD",
        )
