"""Workers of Ray as producers: the hook that Ray calls in each process, and the same by hand."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.client.identity import program_name
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.integrations.ray.names import HOOK_VARIABLE, JOB_VARIABLE, check_job, leaf_address, ray_module

_WAITING: Final = "main_loop"
"""Function of Ray in which a worker waits for its next task."""


def attach_worker() -> None:
    """Make this process record for the job of its runtime environment. Never raises: Ray would end the worker.

    The address of the leaf follows from the job and the node: a call of an actor would abort the worker here. The
    process becomes a producer at its first instrument, so workers that record nothing are none.
    """
    job = os.environ.get(JOB_VARIABLE, "")
    if not job or os.environ.get(HOOK_VARIABLE) == "off":
        return
    try:
        attach(job)
    except Exception as error:  # noqa: BLE001 – an error here would end the worker and then all others
        user_warnings.warn(f"nothing is recorded in this worker: {error}")


def attach(job: str) -> None:
    """Make this process record for a job. It must be a task or an actor on a node of the cluster.

    Example:
        @ray.remote
        class Trainer:
            def __init__(self):
                telemetry.integrations.ray.attach("job")

    Only programs that can't pass `env` to `ray.init` need it. If the leaf of the node is not there yet, events wait
    in this process. Raises UsageError for a wrong name, EndpointError without a folder for sockets.
    """
    context = ray_module().get_runtime_context()
    os.environ[ENDPOINT_VARIABLE] = leaf_address(check_job(job), context.get_node_id())
    PROCESS.reopen()  # of an earlier run of this process
    PROCESS.awaits_aggregator = PROCESS.ends_with_run = True
    PROCESS.own_name = lambda: worker_name(context)
    PROCESS.is_at_work = is_at_work


def is_at_work() -> bool:
    """Check whether this worker executes a task, or a method of an actor, on its main thread.

    Ray waits for the next one in `main_loop`. Methods of asynchronous and threaded actors run on other threads.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_name != _WAITING


def worker_name(context: Any) -> str:
    """Return the name of a worker: of its actor, of the actor's class, or of its task."""
    try:
        if name := context.get_actor_name():
            return str(name)
        task = str(context.get_task_name() or "")
        return (task.partition(".")[0] if context.get_actor_id() else task) or program_name()
    except Exception:  # noqa: BLE001 – a name is for people; Ray may have none outside of a task
        return program_name()
