"""Capture of RL-Insight: events of its API become instruments and spans of the run, without Ray or a server.

RL-Insight sends events through a client, which it chooses by the name of a backend. This capture registers a client
of its own under `ray`, the default, and under `telemetry`. If the program names a server, the client that was
registered before gets every event as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.rl_insight.events import EVENTS
from telemetry.integrations.rl_insight.targets import record_targets

SERVER_VARIABLE: Final = "RL_INSIGHT_SERVER_URL"
NO_SERVER: Final = "telemetry"
"""URL that makes `init` go on without a server. It has no scheme, so no request can be made with it."""
_BACKENDS: Final = ("ray", "telemetry")
_MISSING: Final = object()
_OBSERVERS: Final = Observers("rl_insight")


class _Client:
    """A client of RL-Insight that records events, and passes them on to another client if there is one."""

    def __init__(self, other: Any = None) -> None:
        self._other = other

    def apply_event(self, event: dict[str, Any]) -> None:
        if self._other is not None:
            self._other.apply_event(event)
        EVENTS.apply(event)


class _EntryPatch(Patch):
    """A patch of an entry of a mapping, in place of an attribute."""

    def __init__(self, owner: Any, key: str, make: Callable[[Any], Any]) -> None:
        """`make` gets the entry so far, or None, and returns the new one."""
        self._owner = owner
        self._name = key
        self._make = make
        self._before: Any = _MISSING
        self._ours: Any = _MISSING

    def install(self) -> None:
        if self._ours is _MISSING:
            self._before = self._owner.get(self._name, _MISSING)
            self._ours = self._make(None if self._before is _MISSING else self._before)
            self._owner[self._name] = self._ours

    def remove(self) -> None:
        if self._ours is not _MISSING and self._owner.get(self._name) == self._ours:
            if self._before is _MISSING:
                del self._owner[self._name]
            else:
                self._owner[self._name] = self._before
        self._ours = _MISSING


def _client_patches(module: ModuleType) -> Iterable[Patch]:
    registry = sys.modules["rl_insight.client.base"].MONITOR_CLIENT_REGISTRY
    return [_EntryPatch(registry, backend, _factory) for backend in _BACKENDS]


def _factory(before: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def create(conf: Any) -> _Client:
        has_server = str(conf.server.url).strip() not in ("", NO_SERVER)
        return _Client(before(conf) if before is not None and has_server else None)

    return create


def _default_patches(module: ModuleType) -> Iterable[Patch]:
    """Set the default of the server's URL, which `init` requires. The program and the environment override it."""
    defaults = getattr(module, "_TRAINING_MONITOR_DEFAULTS", None)
    if defaults is None:  # another release than 0.3
        return [_EntryPatch(os.environ, SERVER_VARIABLE, lambda before: before or NO_SERVER)]
    return [_EntryPatch(defaults.server, "url", lambda before: before or NO_SERVER)]


def _target_patches(module: ModuleType) -> Iterable[Patch]:
    package = sys.modules["rl_insight"]
    name = "update_prometheus_config"
    return [Patch(package, name, _targets), Patch(module, name, _targets)]


def _targets(original: Callable[..., Any]) -> Callable[..., Any]:
    def update_prometheus_config(
        server_addresses: list[str],
        job_name: str | None = None,
        labels: list[Mapping[str, Any] | None] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        has_server = os.environ.get(SERVER_VARIABLE, "").strip() not in ("", NO_SERVER)
        is_wrong = not server_addresses or (labels is not None and len(labels) != len(server_addresses))
        result = None
        if has_server or is_wrong:  # RL-Insight checks its arguments before it looks for its server
            result = original(server_addresses, job_name, labels, *args, **kwargs)
        if not is_wrong:
            _OBSERVERS.run("update_prometheus_config", record_targets, server_addresses, job_name, labels)
        return result

    return update_prometheus_config


_CAPTURE: Final = Capture(
    {
        "rl_insight.utils.monitor_config_loader": _default_patches,
        "rl_insight.utils": _target_patches,
        "rl_insight.client": _client_patches,
    },
    "rl_insight",
)
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall
