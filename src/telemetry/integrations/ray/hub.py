"""One run for all processes of a Ray job, for programs whose workers ask for it by themselves.

The first process that asks starts the run, and the run ends with it. The others record into it.
"""

from __future__ import annotations

from telemetry.client.process import PROCESS
from telemetry.integrations.ray import names
from telemetry.integrations.ray.driver import JobRunsError, RayRun, begin
from telemetry.integrations.ray.worker import attach, worker_name


def join_job(name: str) -> RayRun | None:
    """Record into the run `name` of this Ray job. Start it if there is none, and then return it.

    Raises TelemetryError.
    """
    context = names.ray_module().get_runtime_context()
    job = names.job_of(f"{name}-{context.get_job_id()}")
    PROCESS.own_name = lambda: worker_name(context)
    try:
        return begin(job)
    except JobRunsError:
        attach(job)
        return None
