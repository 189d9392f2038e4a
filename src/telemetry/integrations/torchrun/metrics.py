"""Metrics that a process puts: those of a worker with its rank, those of an agent as the agent's own."""

from __future__ import annotations

import os
from typing import Any, Final

from telemetry.integrations.metric_points import PutPoint, point_recorder
from telemetry.integrations.torchrun.agent import PLATFORM_GROUP, Agent

_ROUTES_KEPT: Final = 20_000  # recorders of further metrics are made at each call
_RANKS_LABELLED: Final = 64  # each rank has series of its own, and a run has room for 2,000 in its default settings


class MetricRecorders:
    """The recorders of this process by group and name. Thread-safe."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._routes: dict[tuple[object, object], PutPoint] = {}
        os.register_at_fork(after_in_child=self._routes.clear)  # an agent may fork its workers, which have ranks

    def put(self, group: object, name: object, value: Any) -> None:
        """Record a value of a metric."""
        try:
            put = self._routes[group, name]
        except (KeyError, TypeError):
            put = self._new_route(group, name)
        put(value)

    def _new_route(self, group: object, name: object) -> PutPoint:
        labels = worker_labels()
        own = None
        if labels is None and group == PLATFORM_GROUP and isinstance(name, str):
            own = self._agent.recorder(name)
        put = own or point_recorder(group, name, **(labels or {}))
        try:
            if len(self._routes) < _ROUTES_KEPT:
                self._routes[group, name] = put
        except TypeError:
            pass  # a group or a name that is no text may not be hashable
        return put


def worker_labels() -> dict[str, str] | None:
    """Return the label with the rank if this process is a worker of torchrun. Return None in other processes.

    In a world of many ranks the label is left out, and all ranks share a series.
    """
    environment = os.environ
    rank = environment.get("RANK", "")
    if "TORCHELASTIC_RUN_ID" not in environment or not rank.isdecimal():
        return None
    world_size = environment.get("WORLD_SIZE", "")
    return {"rank": rank} if not world_size.isdecimal() or int(world_size) <= _RANKS_LABELLED else {}
