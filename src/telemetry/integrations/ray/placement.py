"""The leaves of a job: one actor on each node that the cluster has or gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from telemetry.integrations.ray import names
from telemetry.integrations.ray.leaf import LeafBody, LeafPlan
from telemetry.integrations.ray.node_list import NodeList
from telemetry.integrations.ray.plan import RootPlan, actor_options
from telemetry.transport.client import ControlClient
from telemetry.transport.keys import KeyPair
from telemetry.wire.control import ExpectNodes

_CLOSE_S: Final = 15.0  # for leaves that still write their own result
_CALL_S: Final = 10.0  # for the answer of an actor, which may be restarted


class Placement:
    """The actors of all leaves. One thread at a time may use it."""

    def __init__(self, plan: RootPlan, folder: Path) -> None:
        """Read the list of nodes in the folder. Raises RunDirectoryError."""
        self.nodes = NodeList(folder / "nodes.json")
        self._plan = plan
        self._told: list[str] = []
        """Names of the nodes that the root knows to expect."""
        self._leaves: dict[str, Any] = {}
        """Node id → handle of the actor of its leaf."""

    def look(self, upstream: str, pair: KeyPair | None) -> None:
        """Write down new nodes, here and at the root. Then put a leaf on each.

        Raises RunDirectoryError or EndpointError if a node can't be written down. It has no leaf then: a node that
        is not written down could be lost without a trace.
        """
        alive = live_nodes()
        self.nodes.add({node_id: name for node_id, name in alive.items() if node_id not in self.nodes})
        if self._told != self.nodes.names:
            told = self.nodes.names
            with ControlClient(upstream) as client:
                client.request(ExpectNodes(nodes=told))
            self._told = told
        for node_id, name in alive.items():
            if node_id not in self._leaves:
                self._leaves[node_id] = self._place(node_id, name, upstream, pair)

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of all leaves whose actors answer."""
        ray = names.ray_module()
        asked = [leaf.facts.remote() for leaf in dict(self._leaves).values()]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=_CALL_S) if asked else ([], [])
        return [answer for answer in map(_answer, ready) if answer is not None]

    def close(self) -> None:
        """End all leaves and their actors. Blocks until they are gone."""
        ray = names.ray_module()
        leaves = {**self._leaves, **self._left_behind()}
        asked = [leaf.close.remote(_CLOSE_S) for leaf in leaves.values()]
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=2 * _CLOSE_S)
        for leaf in leaves.values():
            ray.kill(leaf, no_restart=True)
        self._leaves.clear()

    def _place(self, node_id: str, node: str, upstream: str, pair: KeyPair | None) -> Any:
        ray = names.ray_module()
        plan = self._plan
        leaf = LeafPlan(
            job=plan.job,
            name=plan.name,
            run_id=plan.run_id,
            node_id=node_id,
            node=node,
            upstream=upstream,
            directory=plan.leaf_directory,
            settings=plan.settings,
            pair=pair,
        )
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)
        options = {
            **actor_options(names.leaf_actor(plan.job, node_id)),
            "scheduling_strategy": pinned,
            "get_if_exists": True,  # of an earlier actor of this root
        }
        return ray.remote(LeafBody).options(**options).remote(leaf)

    def _left_behind(self) -> dict[str, Any]:
        """Return leaves that an earlier actor of this root has placed, on nodes that are gone by now."""
        ray = names.ray_module()
        found = {}
        for node_id in self.nodes.ids:
            if node_id not in self._leaves:
                try:
                    name = names.leaf_actor(self._plan.job, node_id)
                    found[node_id] = ray.get_actor(name, namespace=names.NAMESPACE)
                except ValueError:
                    continue
        return found


def live_nodes() -> dict[str, str]:
    """Return the live nodes of the cluster by id, with their names."""
    ray = names.ray_module()
    return {str(node["NodeID"]): names.node_name(node) for node in ray.nodes() if node["Alive"]}


def _answer(reference: Any) -> dict[str, Any] | None:
    """Return the answer of an actor, or None if it is not there at the moment."""
    ray = names.ray_module()
    try:
        answer: dict[str, Any] = ray.get(reference)
    except ray.exceptions.RayError:
        return None
    return answer
