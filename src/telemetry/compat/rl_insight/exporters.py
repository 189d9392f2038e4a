"""Backends of a run that `init` starts: the page for Prometheus, and the receiver of spans.

RL-Insight has both without a word of the program: its hub listens at port 9092, and spans go to
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.client import notice
from telemetry.config import load
from telemetry.errors import TelemetryError
from telemetry.plugins.choice import Choice
from telemetry.redaction import mask_secrets
from telemetry.store.stack_state import live_stack
from telemetry.supervise.writers import kind_of
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetStatus, Status

TRACES_VARIABLE: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_NAMESPACE: Final = "rl_insight_monitor"
_PORT: Final = 9092
_TRACES_PATH: Final = "/v1/traces"
_ASK_S: Final = 1.0


@dataclass
class Exporters:
    """The texts for `to`, and the environment variables of their writers."""

    to: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    is_asked_for: bool = False
    """True if the program or its environment names one of them."""


def exporters_of(config: Mapping[str, Any] | None) -> Exporters:
    """Return the exporters that a configuration of RL-Insight and the environment name.

    Backends of the setting `backends.to` stay, and replace the exporter of their kind.
    """
    prometheus, traces = _table(config, "prometheus"), _table(config, "otel").get("traces_endpoint")
    stack = live_stack()
    of_stack = f"{stack.otlp}{_TRACES_PATH}" if stack is not None and stack.otlp else ""
    endpoint = str(os.environ.get(TRACES_VARIABLE, "") or traces or of_stack)
    namespace = namespace_of(config) or _NAMESPACE
    chosen = []
    if prometheus.get("enable", True):
        port = prometheus.get("metrics_report_port")
        options = {"port": str(_PORT if port is None else port), "namespace": namespace}
        if port is None:
            options["auto_port"] = "true"
        if not prometheus and stack is None:  # nobody is known who would scrape the last values
            options["linger"] = "0"
        chosen.append(Choice("prometheus", "prometheus", options))
    if endpoint:
        options = {"metrics": "false", "roots": "true", "integers": "global_steps+turn"}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            options["service"] = namespace
        chosen.append(Choice("otlp", "otlp", options))
    own = list(load().config.backends.to)
    to = [*own, *(str(one) for one in chosen if one.kind not in map(kind_of, own))]
    is_asked_for = bool(prometheus or traces or os.environ.get(TRACES_VARIABLE))
    return Exporters(to, {TRACES_VARIABLE: endpoint} if endpoint else {}, is_asked_for)


def namespace_of(config: Mapping[str, Any] | None) -> str:
    """Return the namespace that a configuration of any release names, or an empty text."""
    server = _table(config, "server").get("namespace")
    return str(server or (config.get("namespace") if isinstance(config, Mapping) else "") or "")


def warn_of_missing(endpoint: str, exporters: Exporters) -> None:
    """Say which backends a run that is joined lacks, if the program asks for them. Wait at most a second."""
    if not exporters.is_asked_for:
        return
    try:
        with ControlClient(endpoint) as client:
            answer = client.request(GetStatus(), _ASK_S)
    except TelemetryError:
        return
    kinds = {stat.kind or stat.name for stat in answer.snapshot.backends} if isinstance(answer, Status) else set()
    missing = [text for text in exporters.to if kind_of(text) not in kinds]
    if missing and isinstance(answer, Status):
        words = " ".join(f"--to '{text}'" for text in mask_secrets(missing))
        notice.warn(
            "this process joins a run that is open already; its exporters are chosen where it is started, as in: "
            f"telemetry run {words} -- CMD"
        )


def _table(config: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    found = config.get(name) if isinstance(config, Mapping) else None
    return found if isinstance(found, Mapping) else {}
