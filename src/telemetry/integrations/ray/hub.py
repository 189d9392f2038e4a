"""One run for all processes of a Ray job, for programs whose workers ask for it by themselves.

The first process that asks starts the run, and the run ends with it. The others record into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry import limits
from telemetry.client.identity import shown_name
from telemetry.client.process import PROCESS
from telemetry.common.formatting import printable
from telemetry.common.programs import stem
from telemetry.integrations.ray import names
from telemetry.integrations.ray.driver import JobRunsError, RayRun, begin
from telemetry.integrations.ray.worker import attach, worker_name


def join_job(
    hub: str, name: str | None = None, to: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> RayRun | None:
    """Record into the run that this Ray job has for a `hub`. Start it if there is none, and then return it.

    A run that is started here is called `name`, or like this process: its actor or its script. It delivers to the
    backends `to`, whose writers run beside this process and get the variables of `environment`, too. Raises
    TelemetryError.
    """
    context = names.ray_module().get_runtime_context()
    job = names.job_of(f"{hub}-{context.get_job_id()}")
    called = printable(shown_name(name or stem(worker_name(context)))).strip()
    PROCESS.own_name = lambda: worker_name(context)
    try:
        return begin(job, name=called[: limits.NAME_CHARS], to=to, environment=environment)
    except JobRunsError:
        attach(job)
        return None
