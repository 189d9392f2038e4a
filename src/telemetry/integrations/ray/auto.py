"""A run on Ray without a change of the driver: the part of `telemetry run --ray` in the driver's process.

Ray calls the function of RAY_RUNTIME_ENV_HOOK in `ray.init`. It adds the environment of workers, and starts the run
once the driver is connected. The run ends before `ray.shutdown`, or at the exit of the driver.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.integrations.ray import names
from telemetry.integrations.ray.driver import RayRun, run

_RAY_VARIABLE: Final = "RAY_RUNTIME_ENV_HOOK"
_AUTO_VARIABLE: Final = "TELEMETRY_RAY_AUTO"
_HOOK: Final = "telemetry.integrations.ray.auto.runtime_env_hook"
_open: Final[list[RayRun]] = []
_hooked: Final[list[object]] = []


def variables(name: str) -> dict[str, str]:
    """Return the environment of a driver whose `ray.init` starts a run. `name` may be any text."""
    return {_RAY_VARIABLE: _HOOK, _AUTO_VARIABLE: names.job_of(name)}


def runtime_env_hook(runtime_env: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the runtime environment of `ray.init` with the hook of workers. Ray calls it. Never raises."""
    job = os.environ.get(_AUTO_VARIABLE, "")
    if names.JOB_VARIABLE in (runtime_env or {}).get("env_vars", {}):
        return runtime_env  # the driver starts the run itself
    try:
        own = names.env(job, runtime_env)
        _hook_ray(names.ray_module(), job)
    except Exception as error:  # noqa: BLE001 – the program must run as it does without telemetry
        user_warnings.warn(f"nothing is recorded on Ray: {error}")
        return runtime_env
    return own


def _hook_ray(ray: Any, job: str) -> None:
    """Start the run after `ray.init`, and end it before `ray.shutdown`. A second call has no effect."""
    if _hooked:
        return
    _hooked.append(job)
    ray._private.worker._post_init_hooks.append(lambda: _begin(job))
    ray.shutdown = _ending_run(ray.shutdown)


def _begin(job: str) -> None:
    try:
        if not _open or _open[-1].finished:
            _open[:] = [run(job)]
    except Exception as error:  # noqa: BLE001 – as above
        user_warnings.warn(f"nothing is recorded on Ray: {error}")


def _ending_run(shutdown: Any) -> Any:
    @functools.wraps(shutdown)
    def end_and_shut_down(*args: Any, **kwargs: Any) -> Any:
        for open_run in _open:
            open_run.finish()
        return shutdown(*args, **kwargs)

    return end_and_shut_down
