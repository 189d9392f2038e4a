"""A gateway: one run, and the options of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from telemetry import limits
from telemetry.backends.prometheus.names import Names
from telemetry.config.load import load
from telemetry.errors import TelemetryError
from telemetry.gateway.bodies import BodyRoom
from telemetry.gateway.options import GatewayOptions
from telemetry.gateway.otlp.metrics import MetricState
from telemetry.gateway.run_link import RunLink

if TYPE_CHECKING:
    from telemetry.gateway.otlp.grpc import GrpcReceiver

_SMALL_BYTES: Final = 64 * limits.KIB  # recorded within 20 ms; a thread would cost more
_T = TypeVar("_T")


class Gateway:
    """The state that all handlers share. `open` and `close` belong to the event loop that serves requests."""

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self.names = Names()
        """Names of instruments on the Prometheus page, which stay the same from scrape to scrape."""
        self.metric_state = MetricState()
        """The last points of OTLP's cumulative metrics. `open` replaces it."""
        self.failure: TelemetryError | None = None
        """Error of `open`."""
        self.body_room = BodyRoom()
        self._bodies = ThreadPoolExecutor(1, "telemetry-bodies")
        self._pages = ThreadPoolExecutor(1, "telemetry-pages")
        self._run: RunLink | None = None
        self._grpc: GrpcReceiver | None = None
        self._config = load().config

    @property
    def run(self) -> RunLink:
        """The connection to the run; only between `open` and `close`."""
        assert self._run is not None, "the gateway is not open"
        return self._run

    async def open(self) -> None:
        """Join the run. Raises EndpointError, KeysError, ProtocolError, or UsageError for the address of gRPC."""
        try:
            if self.options.grpc:
                from telemetry.gateway.otlp.grpc import GrpcReceiver
                from telemetry.gateway.routes.otlp import take

                self._grpc = GrpcReceiver(self, self.options.grpc, take)
            self._run = await RunLink.open(self.options.endpoint, self._config.emit)
        except TelemetryError as error:
            self.failure = error
            raise
        self.metric_state = MetricState(await self._run.alone_since_ns())
        if self._grpc is not None:
            await self._grpc.start()

    async def work(self, size: int, function: Callable[[], _T]) -> _T:
        """Call a function that works on a body of `size` bytes: in a thread, unless the body is small.

        Large bodies are worked on one after the other, and other requests go on meanwhile.
        """
        if size <= _SMALL_BYTES:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._bodies, function)

    async def make_page(self, function: Callable[[], _T]) -> _T:
        """Call a function that makes a long answer, in a thread. Such functions are called one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._pages, function)

    async def close(self) -> None:
        """Send what is left, and leave the run."""
        if self._grpc is not None:
            await self._grpc.close()
        for executor in (self._pages, self._bodies):
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        if self._run is not None:
            await self._run.close(self._config.emit.finish_timeout_s)
