"""The actor of a job. It starts and watches the root, and puts a leaf on each node of the cluster."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Any, Final

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.integrations.ray import names
from telemetry.integrations.ray.keys import own_pair, pair_for
from telemetry.integrations.ray.placement import Placement, RootPlan, live_nodes
from telemetry.integrations.ray.service import RayService, raylet_pid, remove_abandoned
from telemetry.store.processes import process_lives
from telemetry.supervise.outcome import await_report, second_best
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import refuses, runtime_directory
from telemetry.transport.keys import KeyPair
from telemetry.transport.subscription import Subscription
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.control import GetStatus, Status, Stop
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

_LOOK_S: Final = 1.0
_AGAIN_S: Final = 0.1
_LATE_S: Final = 10.0  # at the end, for the leaf of a node that has just joined
_CLOSE_S: Final = 15.0  # for a root that does not end
_DRIVER_GRACE_S: Final = 60.0  # after the driver's death, for the end of a root that does not belong to the driver


class RootBody:
    """The body of the root's actor. Its thread does the work, so that calls are answered at once."""

    def __init__(self, plan: RootPlan) -> None:
        self._plan = plan
        self._folder = runtime_directory() / names.folder_name(plan.run_id)
        self._decided = threading.Event()
        self._closing = threading.Event()
        self._looking = threading.Lock()
        self._error: TelemetryError | None = None
        self._upstream = plan.upstream
        self._pair: KeyPair | None = None
        self._service: RayService | None = None
        self._placement = Placement(plan, self._folder)
        self._trouble = ""
        """Reason why the last look at the nodes failed."""
        self._finishing = threading.Lock()
        self._driverless_since = 0.0
        threading.Thread(target=self._work, name="telemetry-root", daemon=True).start()

    # --- calls of the driver ---------------------------------------------------------------------

    def facts(self, timeout_s: float) -> dict[str, Any]:
        """Return the addresses of the root and its process, or the error that keeps it from starting."""
        self._decided.wait(timeout_s)
        if self._error is not None or not self._decided.is_set():
            error = self._error or EndpointError(f"the root was not ready within {timeout_s:g} s")
            return {"error": error.message, "hint": error.hint}
        service, aggregator = self._service, self._service.aggregator if self._service is not None else None
        return {
            "endpoint": self._upstream,
            "directory": service.files.directory if service is not None else "",
            "run_id": service.files.run_id if service is not None else "",
            "pid": 0 if aggregator is None else aggregator.pid,
            "actor_pid": os.getpid(),
            "nodes": self._placement.nodes.names,
            "trouble": self._trouble,
        }

    def leaves(self) -> list[dict[str, Any]]:
        """Return the facts of all leaves that answer."""
        return self._placement.facts()

    def state(self) -> bytes:
        """Return the state so far of the root, encoded. Raises EndpointError or ProtocolError."""
        return snapshot_to_json(self._snapshot())

    def await_nodes(self, timeout_s: float) -> list[str]:
        """Wait until the root has heard the leaves of all live nodes. Return the names of those that it has not.

        Workers hold their events until then, so a run must not end before.
        """
        deadline = time.monotonic() + timeout_s
        missing: set[str] = set()
        while True:
            if not self._over and self._error is None:
                try:
                    heard = {stat.node for stat in self._snapshot().nodes if stat.leaf}
                    missing = set(live_nodes().values()) - heard
                except TelemetryError:  # the root is being restarted
                    missing = missing or set(live_nodes().values())
            if not missing or time.monotonic() > deadline or self._over:
                return sorted(missing)
            self._closing.wait(_AGAIN_S)

    def finish(self, reason: str, timeout_s: float) -> dict[str, Any]:
        """End the root and return its result, encoded. Blocks for at most about `timeout_s`. May be called again.

        Only for a root that this actor has started.
        """
        with self._finishing:
            self._decided.wait(timeout_s)  # this actor may be new
            self.await_nodes(_LATE_S)
            assert self._service is not None
            report = _finished(self._service, reason, timeout_s)
        return {
            "snapshot": snapshot_to_json(report.snapshot),
            "source": report.source,
            "source_reason": report.source_reason,
        }

    def close(self) -> None:
        """End the actors of all leaves, and remove the private files of the run. Blocks until they are gone."""
        self._closing.set()
        with self._looking:  # no leaf is placed any more
            self._placement.close()
            if self._service is not None:
                self._service.end(_CLOSE_S)
            shutil.rmtree(self._folder, ignore_errors=True)
            remove_abandoned(runtime_directory())

    # --- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        self._try_to_begin()
        self._decided.set()
        while not self._closing.is_set():
            with self._looking:
                if not self._closing.is_set():
                    self._look()
            if not self._driver_lives() and self._may_leave():
                self._leave()
            self._closing.wait(_LOOK_S)

    def _try_to_begin(self) -> None:
        try:
            if self._plan.upstream:
                self._pair = pair_for(self._plan.upstream, self._plan.keys)
            else:
                self._begin()
            self._error = None
        except TelemetryError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 – thread root: the driver must hear of it
            self._error = EndpointError(f"the root can't be started: {error!r}")

    def _begin(self) -> None:
        """Start the root, or go on with it. Raises TelemetryError."""
        plan = self._plan
        self._pair = own_pair(self._folder)
        host = f"[{plan.address}]" if ":" in plan.address else plan.address
        flags = {
            **plan.settings,
            "run.dir": plan.directory,
            "transport.bind": f"tcp://{host}:*",
            "security.curve": "always",
        }
        pid, started = plan.driver
        self._service = RayService(
            self._folder,
            plan.name,
            flags,
            # a driver in another container can't be watched
            owner_pid=pid if process_lives(pid, started) else raylet_pid(),
            run_id=plan.run_id,
            say=user_warnings.warn,
        )
        self._service.begin()
        aggregator = self._service.aggregator
        self._upstream = "" if aggregator is None else aggregator.endpoint

    def _look(self) -> None:
        if self._error is not None:  # an earlier actor has started the root, and it can't be resumed at once
            self._try_to_begin()
        if self._error is not None or self._over:
            return
        try:
            self._placement.look(self._upstream, self._pair)
            self._trouble = ""
        except TelemetryError as error:
            self._report(str(error))
        except Exception as error:  # noqa: BLE001 – thread root: late nodes would get no leaf any more
            self._report(repr(error))

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            user_warnings.warn(
                f"nodes of the job {self._plan.job} have no leaf yet, which is tried again: {trouble}"
            )
        self._trouble = trouble

    # --- the end ---------------------------------------------------------------------------------

    @property
    def _over(self) -> bool:
        """True if the root is gone for good. Blocks briefly."""
        return self._service.over if self._service is not None else refuses(self._upstream)

    def _snapshot(self) -> MetricsSnapshot:
        with ControlClient(self._upstream) as client:
            answer = client.request(GetStatus())
        if not isinstance(answer, Status):
            raise ProtocolError(f"{self._upstream} answered status with {type(answer).__name__}")
        return answer.snapshot

    def _driver_lives(self) -> bool:
        return process_lives(*self._plan.driver)

    def _may_leave(self) -> bool:
        """Check whether a run whose driver is dead has ended. A root of this actor watches the driver itself.

        Another root may go on without this driver, so the leaves leave it after a grace.
        """
        if self._over or self._error is not None:
            return True
        now = time.monotonic()
        self._driverless_since = self._driverless_since or now
        return self._service is None and now - self._driverless_since > _DRIVER_GRACE_S

    def _leave(self) -> None:
        """End the run's actors, this one last: the driver can't do it any more."""
        self.close()
        ray = names.ray_module()
        ray.kill(ray.get_actor(names.root_actor(self._plan.job), namespace=names.NAMESPACE), no_restart=True)


def _finished(service: RayService, reason: str, timeout_s: float) -> Report:
    if service.keeper is None:
        return second_best(service.files, None, "the run had ended before")
    with Subscription(service.keeper.aggregator.snapshots) as snapshots:
        try:
            service.keeper.ask(Stop(reason=reason), limits.CONTROL_TIMEOUT_S)
        except TelemetryError as error:
            return second_best(service.files, snapshots.newest, f"can't ask the root to stop: {error.message}")
        return await_report(
            snapshots,
            service.keeper,
            timeout_s,
            recovery_s=limits.RECOVERY_S,
            patience_after_restart_s=timeout_s,
        )
