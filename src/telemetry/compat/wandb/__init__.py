"""W&B's interface. Programs that use `wandb` run with this import instead, and need neither W&B nor a server.

    import telemetry.compat.wandb as wandb

    with wandb.init(project="demo", config={"lr": 0.1}) as run:
        run.log({"loss": 0.5})

`telemetry run --stand-in wandb` gives it to programs and libraries that say `import wandb`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from telemetry.compat.wandb import env, errors, sdk, term, util
from telemetry.compat.wandb.artifacts import Artifact
from telemetry.compat.wandb.configs import Config
from telemetry.compat.wandb.env import Settings
from telemetry.compat.wandb.errors import CommError, Error, UsageError
from telemetry.compat.wandb.media import (
    Audio,
    Classes,
    Histogram,
    Html,
    Image,
    Molecule,
    Object3D,
    Plotly,
    Video,
)
from telemetry.compat.wandb.sdk import lib as wandb_lib
from telemetry.compat.wandb.sessions import BeforeInit, attach, finish, init, require_run
from telemetry.compat.wandb.tables import Table
from telemetry.compat.wandb.term import termerror, termlog, termwarn
from telemetry.compat.wandb.unsupported import Api, agent, controller, restore, sweep
from telemetry.compat.wandb.wandb_run import Run

__version__ = "0.31.0"
"""The version of W&B whose interface this is."""

__all__ = [
    "AlertLevel",
    "Api",
    "Artifact",
    "Audio",
    "Classes",
    "CommError",
    "Config",
    "Error",
    "Histogram",
    "Html",
    "Image",
    "Molecule",
    "Object3D",
    "Plotly",
    "Run",
    "Settings",
    "Table",
    "UsageError",
    "Video",
    "agent",
    "alert",
    "attach",
    "config",
    "controller",
    "define_metric",
    "env",
    "errors",
    "finish",
    "init",
    "join",
    "log",
    "log_artifact",
    "log_model",
    "login",
    "mark_preempting",
    "require",
    "restore",
    "run",
    "save",
    "sdk",
    "setup",
    "summary",
    "sweep",
    "teardown",
    "term",
    "termerror",
    "termlog",
    "termwarn",
    "unwatch",
    "use_artifact",
    "use_model",
    "util",
    "wandb_lib",
    "watch",
]

run: Run | None = None
"""The current run, or None."""
config: Any = BeforeInit("wandb.config")
summary: Any = BeforeInit("wandb.summary")

join = finish
_attach = attach


class AlertLevel(enum.Enum):
    """Levels of an alert."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def log(data: Any, step: int | None = None, commit: bool | None = None, sync: bool | None = None) -> None:
    """Log values to the current run. Raise Error if there is none."""
    if run is None:
        require_run("log")
    else:
        run.log(data, step, commit)


def _of_run(name: str) -> Callable[..., Any]:
    """Return the function that calls a method of the current run. It raises Error if there is none."""

    def call(*args: Any, **more: Any) -> Any:
        return getattr(require_run(name), name)(*args, **more)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = getattr(Run, name).__doc__
    return call


define_metric = _of_run("define_metric")
log_artifact = _of_run("log_artifact")
log_model = _of_run("log_model")
use_artifact = _of_run("use_artifact")
use_model = _of_run("use_model")
save = _of_run("save")
alert = _of_run("alert")
watch = _of_run("watch")


def unwatch(*args: Any, **more: Any) -> None:
    """Do nothing."""


def mark_preempting() -> None:
    """Do nothing."""


def login(*_args: Any, **_more: Any) -> bool:
    """Return True: there is no server to log in to. A key is not kept."""
    return True


def setup(settings: Any = None) -> None:
    """Do nothing."""


def teardown(exit_code: int | None = None) -> None:
    """End the current run, if there is one."""
    finish(exit_code)


def require(*_args: Any, **_more: Any) -> None:
    """Do nothing."""


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"the interface of telemetry for wandb has no {name!r}: run the program with W&B itself and "
        "`telemetry run --capture wandb` if it needs this"
    )
