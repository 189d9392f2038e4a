"""Names of a job on a Ray cluster: its actors, the addresses of its leaves, and the environment of its workers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from telemetry.common.distribution import install_hint
from telemetry.config.load import ENV_NEST, ENV_PREFIX
from telemetry.errors import UsageError
from telemetry.transport.endpoints import IPC, runtime_directory

NAMESPACE: Final = "telemetry"
"""Ray namespace of the actors of all jobs."""
JOB_VARIABLE: Final = "TELEMETRY_RAY_JOB"
HOOK_VARIABLE: Final = "TELEMETRY_RAY_HOOK"
"""Variable that switches the hook off in a process, with the value `off`."""
_HOOK: Final = "telemetry.integrations.ray.worker.attach_worker"
_JOB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")  # a part of the path of a socket, which is short
_REDACT: Final = f"{ENV_PREFIX}REDACT{ENV_NEST}"
_JOB_CHARS: Final = 40
_OWN_SETTINGS: Final = ("transport.", "upstream.", "security.", "run.dir", "run.nodes")
_NODE_CHARS: Final = 12  # of 56: random ones, so that a cluster has no two nodes with the same


def ray_module() -> Any:
    """Return the module `ray`. Raise UsageError if it is not installed."""
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"telemetry on a Ray cluster needs {error.name}, which is not installed", hint=install_hint("ray")
        ) from error


def is_on_ray() -> bool:
    """Check whether this process is connected to Ray. Does not import it."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(getattr(ray, "is_initialized", bool)())


def check_job(job: str) -> str:
    """Return the name of a job. Raise UsageError if it can't be a part of an address."""
    if not _JOB.match(job):
        raise UsageError(
            f"{job[:60]!r} is not a valid name for a job",
            hint="use 1 to 40 letters, digits, `.`, `_` and `-`; the first one is a letter or a digit",
        )
    return job


def job_of(text: str) -> str:
    """Return a valid name for a job that is close to any text."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:_JOB_CHARS].lstrip("._-") or "run"


def env(job: str, runtime_env: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a runtime environment for `ray.init`, whose workers record for the job.

    Example:
        ray.init(runtime_env=telemetry.integrations.ray.env("job", {"pip": ["einops"]}))

    `runtime_env` is the rest of the environment. Raises UsageError if it has another hook, because Ray calls only
    one. That one can call `telemetry.integrations.ray.attach_worker`.
    """
    own = dict(runtime_env or {})
    rules = {name: text for name, text in os.environ.items() if name.startswith(_REDACT)}  # workers mask as the job
    variables = {JOB_VARIABLE: check_job(job), **rules, **own.get("env_vars", {})}
    if own.get("worker_process_setup_hook", _HOOK) != _HOOK:
        raise UsageError(
            "the runtime environment already has a worker_process_setup_hook, and Ray calls only one",
            hint=f"call {_HOOK}() in it, set {JOB_VARIABLE} in its env_vars, and don't use env()",
        )
    return {**own, "env_vars": variables, "worker_process_setup_hook": _HOOK}


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a driver's environment, by their keys. They apply to its root and to all leaves.

    Addresses, keys and folders belong to one process.
    """
    settings = {}
    for name, text in environ.items():
        if name.startswith(ENV_PREFIX) and ENV_NEST in name:
            key = name.removeprefix(ENV_PREFIX).lower().replace(ENV_NEST, ".")
            if not key.startswith(_OWN_SETTINGS):
                settings[key] = text
    return settings


def without_hook() -> dict[str, Any]:
    """Return the runtime environment of actors that are no producers. They inherit the rest from the job."""
    return {"env_vars": {HOOK_VARIABLE: "off"}}


def leaf_address(job: str, node_id: str) -> str:
    """Return the address of the leaf of a node, as a process on this node sees it. Raises EndpointError."""
    return f"{IPC}{runtime_directory() / f'ray-{job}-{node_id[:_NODE_CHARS]}'}"


def root_actor(job: str) -> str:
    return f"root of {job}"


def leaf_actor(job: str, node_id: str) -> str:
    return f"leaf of {job} on {node_id[:_NODE_CHARS]}"


def node_name(node: Mapping[str, Any]) -> str:
    """Return the name of a node, for people. Nodes that share a host have different ones."""
    return f"{node['NodeManagerHostname']}-{str(node['NodeID'])[:_NODE_CHARS]}"


def folder_name(run_id: str, node_id: str = "") -> str:
    """Return the name of the private folder of the root of a run, or of a leaf."""
    return f"ray-{run_id}" + (f"-{node_id[:_NODE_CHARS]}" if node_id else "")
