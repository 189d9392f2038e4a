"""Backends that the options of a Relax program name, as texts for `telemetry run --to`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from telemetry.config.load import env_name
from telemetry.config.notify_urls import KEY, joined, split
from telemetry.config.plugins.choice import Choice

_FREQUENCY: Final = re.compile(r"[?&]freq=\d*(?:&|$)")
_PROJECT: Final = "relax"
_TIME: Final = "%Y%m%d_%H%M%S"
_DISABLED: Final = "disabled"
_WANDB_MODES: Final = {"offline": "offline", "dryrun": "offline", "online": "online", "shared": "online"}


def backends_of(
    args: Any, environment: Mapping[str, str] | None = None, *, now: time.struct_time | None = None
) -> list[str]:
    """Return the backends of `use_tensorboard`, `use_wandb`, `use_clearml` and `timeline_dump_dir`.

    Example:
        backends_of(args)  # ["tensorboard:logdir=out/tensorboard_log", "wandb:project=mine,mode=offline"]

    `args` is a namespace or a dictionary. `environment` and `now` are those of the process by default.
    """
    variables = os.environ if environment is None else environment
    backends = []
    if option(args, "use_tensorboard"):
        backends.append(_text("tensorboard", logdir=_tensorboard_folder(args, variables, now)))
    mode = str(option(args, "wandb_mode") or variables.get("WANDB_MODE", ""))
    if option(args, "use_wandb") and mode != _DISABLED:
        backends.append(
            _text(
                "wandb",
                project=option(args, "wandb_project") or option(args, "tb_project_name"),
                entity=option(args, "wandb_team"),
                name=option(args, "tb_experiment_name") or option(args, "wandb_group"),
                group=option(args, "wandb_group"),
                mode=_WANDB_MODES.get(mode),
                folder=option(args, "wandb_dir"),
            )
        )
    if option(args, "use_clearml"):
        backends.append(
            _text(
                "clearml",
                project=option(args, "tb_project_name") or variables.get("CLEARML_PROJECT"),
                name=option(args, "tb_experiment_name") or variables.get("CLEARML_TASK"),
                tags=variables.get("CLEARML_TAGS"),
            )
        )
    if option(args, "timeline_dump_dir"):
        backends.append(_text("timeline", dir=option(args, "timeline_dump_dir")))
    return backends


def environment_of(args: Any) -> dict[str, str]:
    """Return environment variables that no option may carry: key and address of W&B, receivers of notifications."""
    pairs = {env_name(KEY): joined(receivers_of(args))}
    if option(args, "use_wandb"):
        pairs |= {"WANDB_API_KEY": option(args, "wandb_key"), "WANDB_BASE_URL": option(args, "wandb_host")}
    return {name: str(value) for name, value in pairs.items() if value}


def receivers_of(args: Any) -> list[str]:
    """Return the addresses of `notify_urls`, which has them as a list or with commas between them.

    Their parameter `freq`, the number of steps between two messages, is left out: notifications tell of events.
    """
    given = option(args, "notify_urls") or ""
    texts = [given] if isinstance(given, str) else [str(text) for text in given]
    return [_FREQUENCY.sub(_kept_mark, url) for text in texts for url in split(text)]


def option(args: Any, name: str) -> Any:
    """Return an option of a namespace or a dictionary; None if it is not there."""
    return args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)


def _tensorboard_folder(args: Any, variables: Mapping[str, str], now: time.struct_time | None) -> str:
    if folder := variables.get("TENSORBOARD_DIR"):
        return folder
    if save := option(args, "save"):
        return os.path.join(str(save), "tensorboard_log")
    experiment = option(args, "tb_experiment_name") or time.strftime(_TIME, now or time.localtime())
    return os.path.join("tensorboard_log", str(option(args, "tb_project_name") or _PROJECT), str(experiment))


def _kept_mark(match: re.Match[str]) -> str:
    """Return the `?` that other parameters still need."""
    return "?" if match[0].startswith("?") and match[0].endswith("&") else "&" if match[0].endswith("&") else ""


def _text(kind: str, **options: Any) -> str:
    return str(Choice(kind, kind, {key: str(value) for key, value in options.items() if value}))
