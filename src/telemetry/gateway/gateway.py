"""A gateway: one run, and the options of this process."""

from __future__ import annotations

from telemetry.backends.prometheus.names import Names
from telemetry.config.load import load
from telemetry.config.schema import Config
from telemetry.errors import TelemetryError
from telemetry.gateway.options import GatewayOptions
from telemetry.gateway.otlp.metric_state import MetricState
from telemetry.gateway.run_link import RunLink


class Gateway:
    """What all handlers share. `open` and `close` belong to the event loop that serves requests."""

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self.names = Names()
        """Names of instruments on the Prometheus page, which stay the same from scrape to scrape."""
        self.metric_state = MetricState()
        """The last points of OTLP's cumulative metrics. `open` replaces it."""
        self.failure: TelemetryError | None = None
        """Error of `open`."""
        self._run: RunLink | None = None
        self._config = load().config

    @property
    def config(self) -> Config:
        """Settings of this process."""
        return self._config

    @property
    def run(self) -> RunLink:
        """The connection to the run; only between `open` and `close`."""
        assert self._run is not None, "the gateway is not open"
        return self._run

    async def open(self) -> None:
        """Join the run. Raises EndpointError, KeysError or ProtocolError."""
        try:
            self._run = await RunLink.open(self.options.endpoint, self._config.emit)
        except TelemetryError as error:
            self.failure = error
            raise
        self.metric_state = MetricState(await self._run.alone_since_ns())

    async def close(self) -> None:
        """Send what is left, and leave the run."""
        if self._run is not None:
            await self._run.close(self._config.emit.finish_timeout_s)
