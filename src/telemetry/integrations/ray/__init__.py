"""A run on a Ray cluster: a root beside the driver, a leaf on each node, and workers that record into them.

    import telemetry.integrations.ray

    with telemetry.integrations.ray.run("job", address="auto") as run:
        ray.get([train.remote(shard) for shard in shards])
    print(run.result())

Ray places and watches the leaves. Events never travel through Ray. docs/RAY.md has the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telemetry.common.lazy import lazy_names

if TYPE_CHECKING:
    from telemetry.integrations.ray.driver import RayRun, run
    from telemetry.integrations.ray.names import env
    from telemetry.integrations.ray.worker import attach, attach_worker

_HOME = {
    "RayRun": "telemetry.integrations.ray.driver",
    "attach": "telemetry.integrations.ray.worker",
    "attach_worker": "telemetry.integrations.ray.worker",
    "env": "telemetry.integrations.ray.names",
    "run": "telemetry.integrations.ray.driver",
}

_load = lazy_names(__name__, _HOME)

__all__ = ["RayRun", "attach", "attach_worker", "env", "run"]


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
