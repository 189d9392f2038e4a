"""Collectors, each read at intervals on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricType
from telemetry.compat.tracelet.core.sinks import call, plain
from telemetry.errors import error_text

_JOIN_S: Final = 5.0
_TEXT_CHARS: Final = 1_000


class CollectorThread:
    """The thread of a collector. Its numbers become gauges, its texts become parameters when they change."""

    def __init__(
        self,
        collect: Callable[[], Any],
        emit: Callable[[MetricData], object],
        interval_s: float,
        name: str,
        collector: Any = None,
    ) -> None:
        """`collector` is an object of the user, which the thread also initializes, starts and stops."""
        self._read = collect
        self._emit = emit
        self._interval_s = interval_s
        self._name = name
        self._collector = collector
        self._texts: dict[str, str] = {}
        self._has_failed = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"tracelet-collector-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Report a collector that does not return in time."""
        self._ending.set()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            user_warnings.warn(f"the collector {self._name} did not end within {_JOIN_S:g} s")

    def _serve(self) -> None:
        own = self._collector
        if own is not None and not (self._try(lambda: call(own.initialize, {})) and self._try(own.start)):
            return
        while True:
            self._try(self._collect)
            if self._ending.wait(self._interval_s):
                break
        if own is not None:
            self._try(own.stop)

    def _collect(self) -> None:
        values = self._read()
        for metric in self._metrics("", values) if isinstance(values, Mapping) else values or ():
            self._emit(metric)

    def _metrics(self, path: str, values: Mapping[str, Any]) -> Iterator[MetricData]:
        for key, value in values.items():
            name = f"{path}{key}"
            if isinstance(value, Mapping):
                yield from self._metrics(f"{name}/", value)
            elif isinstance(value, (str, bool)):
                if self._texts.get(name) != str(value) and len(str(value)) <= _TEXT_CHARS:
                    self._texts[name] = str(value)
                    yield MetricData(f"{self._name}.{name.replace('/', '.')}", value, MetricType.PARAMETER)
            elif (figure := plain(value)) is not None:
                yield MetricData(f"{self._name}/{name}", figure, MetricType.SYSTEM)

    def _try(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:  # noqa: BLE001 – code of the user
            if not self._has_failed:
                self._has_failed = True
                user_warnings.warn(
                    f"the collector {self._name} raised {error_text(error)}. "
                    "It goes on at its next turn; this warning appears once"
                )
            return False
        return True
