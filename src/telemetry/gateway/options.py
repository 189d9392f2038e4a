"""Options of a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOKEN_VARIABLE: Final = "TELEMETRY_GATEWAY_TOKEN"
URL_VARIABLE: Final = "TELEMETRY_GATEWAY_URL"
"""Address of the gateway, for the command of `telemetry run --gateway`."""
GRPC_URL_VARIABLE: Final = "TELEMETRY_GATEWAY_GRPC_URL"
"""Address at which it takes OTLP over gRPC, for the command of `telemetry run --gateway-grpc`."""
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8000
"""The port that clients of the Relax metrics service expect."""


@dataclass(frozen=True)
class GatewayOptions:
    """Options of a gateway, checked."""

    endpoint: str
    """Control address of the run."""
    token: str = ""
    """Token that each request must carry; empty: none."""
    names: tuple[str, ...] = ()
    """Additional host names that clients may use; `*` allows any."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    grpc: str = ""
    """HOST:PORT at which OTLP over gRPC is taken; empty: nowhere."""
    deliver_within_s: float = 2.0
    """Longest wait of `report_step` for backends, unless the request names another."""
    confirm_within_s: float = 2.0
    """Longest wait of a request until the aggregator has its events."""
    runs_dir: str = ""
    """Folder of finished runs for `/v1/runs`; empty: live runs only."""
    parent: int = 0
    """Process that restarts this gateway and the aggregator; 0: none."""
