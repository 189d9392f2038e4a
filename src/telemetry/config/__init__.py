"""Settings: one schema, read once at the start, passed on as frozen data."""

from telemetry.config.load import Loaded, load
from telemetry.config.schema import (
    BackendsConfig,
    BackendValues,
    Config,
    EmitConfig,
    GatesConfig,
    HistoryConfig,
    JournalConfig,
    LimitsConfig,
    RedactConfig,
    RunConfig,
    SecurityConfig,
    TransportConfig,
    TuiConfig,
)

__all__ = [
    "BackendValues",
    "BackendsConfig",
    "Config",
    "EmitConfig",
    "GatesConfig",
    "HistoryConfig",
    "JournalConfig",
    "LimitsConfig",
    "Loaded",
    "RedactConfig",
    "RunConfig",
    "SecurityConfig",
    "TransportConfig",
    "TuiConfig",
    "load",
]
