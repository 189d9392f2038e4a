"""The plan of a run on Ray, which the driver hands to the actor of the root, and the options of all actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from telemetry.integrations.ray import names


@dataclass(frozen=True, kw_only=True)
class RootPlan:
    """Facts that the root's actor needs from the driver."""

    job: str
    name: str
    """Name of the run."""
    run_id: str
    node_id: str
    """Node of the driver, where the actor runs, too."""
    address: str
    """Address of that node."""
    directory: str
    leaf_directory: str
    driver: tuple[int, int]
    """Process of the driver: pid and start in clock ticks since boot."""
    settings: dict[str, str]
    """Settings of the driver's environment, by their keys."""
    upstream: str = ""
    """Control address of a root that exists already; empty: the actor starts one."""
    keys: str = ""
    """Folder of the keys with which the driver reaches that root."""


def actor_options(name: str) -> dict[str, Any]:
    """Return the options that all actors of a job share. They outlive the driver, and Ray restarts them."""
    return {
        "name": name,
        "namespace": names.NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": 4,
        "runtime_env": names.without_hook(),
    }
