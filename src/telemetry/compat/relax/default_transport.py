"""The way of values of a client without a URL: into the run of this process, else to a service that answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from telemetry.compat.relax.http_link import HttpLink, LinkError, parsed
from telemetry.compat.relax.http_transport import HEALTH_S, HttpTransport
from telemetry.compat.relax.native import NO_RUN, NativeTransport, missing_run
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.step_buffer import Entry, Place
from telemetry.compat.relax.told import say_once
from telemetry.compat.relax.values import ToDistribution

_LOG: Final = logging.getLogger("telemetry.compat.relax")
_LOOK_AGAIN_S: Final = 5.0
_LOOK_SHARE: Final = 20.0  # a look that takes a second is repeated after 20 s at the earliest
_HEALTHY: Final = "healthy"


class DefaultTransport:
    """The run of this process if it has one, else the service at Relax's default address if it answers.

    A client is often made before the run. So the run wins from the moment in which it is there. The service is
    looked for when the client is made, and when a step is reported.
    """

    def __init__(self, report_timeout_s: float) -> None:
        self._timeout_s = report_timeout_s
        self._native = NativeTransport()
        self._service: HttpTransport | None = None
        self._look_again_s = 0.0
        self._look()

    @property
    def url(self) -> str:
        """The address of the service, or an empty text for the run."""
        return self._chosen.url

    @property
    def to_distribution(self) -> ToDistribution:
        return self._chosen.to_distribution

    def put(self, place: Place, entries: Sequence[Entry]) -> bool:
        """Record or queue values of a step. Return False if there is neither a run nor a service."""
        self._warn()
        return self._chosen.put(place, entries)

    def report(self, place: Place, entries: Sequence[Entry], number: int, *, waits: bool = True) -> dict[str, Any]:
        """Record or queue the last values of a step, and close it. Look for a service again if there is none."""
        if waits and time.monotonic() >= self._look_again_s:
            self._look()
        self._warn()
        return self._chosen.report(place, entries, number, waits=waits)

    def clear(self, place: tuple[str, int | None]) -> bool:
        """Forget values that are not reported."""
        return self._chosen.clear(place)

    def health(self) -> dict[str, Any]:
        """Ask the run or the service for its backends. Wait at most HEALTH_S."""
        self._look()
        return self._chosen.health()

    @property
    def _chosen(self) -> NativeTransport | HttpTransport:
        return self._service if self._service is not None and missing_run() else self._native

    def _look(self) -> None:
        """Look for a service if there is no run. Wait at most HEALTH_S."""
        if self._service is not None or missing_run() != NO_RUN:
            return
        url, began_s = get_serve_url("/metrics"), time.monotonic()
        link = HttpLink(parsed(url), HEALTH_S)
        try:
            answer = link.request("GET", "health")
        except LinkError as error:
            _LOG.debug("no metrics service at %s: %s", url, error)
            return
        finally:
            link.close()
            now_s = time.monotonic()
            self._look_again_s = now_s + max(_LOOK_AGAIN_S, _LOOK_SHARE * (now_s - began_s))
        if answer.status == 200 and answer.body.get("status") == _HEALTHY:
            _LOG.debug("this process has no run, so its values go to %s", url)
            self._service = HttpTransport(url, self._timeout_s)
        else:
            _LOG.debug("%s is no metrics service: %s", url, answer.message)

    def _warn(self) -> None:
        """Say once that values are dropped."""
        if self._service is None and (why := missing_run()):
            if why == NO_RUN:
                url = get_serve_url("/metrics")
                why = (
                    f"this process has no run, and no metrics service answers at {url}; start the program with "
                    "`telemetry run -- CMD`"
                )
            say_once(f"dropped {why}", f"nothing is recorded: {why}")
