"""Capture of warnings and errors of Python's `logging` as marks.

`Logger.callHandlers` is wrapped. A handler on the root logger would change the program: `logging.basicConfig()` has
no effect beside another handler, messages that no handler takes would no longer be printed, and loggers that don't
propagate would be missed.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from telemetry import limits
from telemetry.common.formatting import number_of
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch

if TYPE_CHECKING:
    import logging

_WARNING: Final = 30
_OURS: Final = "telemetry"
_WHAT: Final = "Logger.callHandlers"
_CHARS: Final = 500

_OBSERVERS: Final = Observers("logging")


class Messages:
    """Messages of this process on their way to marks. Thread-safe.

    Messages beyond the limits are counted. A mark with their number comes before the next message, or at the end.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a forked child."""
        self._lock = threading.Lock()
        self._local = threading.local()
        self._room = float(limits.LOG_MARKS_A_SECOND)
        self._filled_s = self._now()
        self._recorded = 0
        self._left_out = 0
        self._has_exit_hook = False

    def observe(self, record: logging.LogRecord) -> None:
        """Record a message of level WARNING or above."""
        if record.levelno < _WARNING or getattr(self._local, "busy", False) or _is_foreign(record):
            return
        self._local.busy = True
        try:
            self._record(record)
        finally:
            self._local.busy = False

    def tell_left_out(self) -> None:
        """Record a mark with the number of messages that were left out since the last such mark, if any."""
        with self._lock:
            count, self._left_out = self._left_out, 0
        if count:
            _mark(f"{number_of(count, 'log message')} left out", {"left_out": count}, None)

    def _record(self, record: logging.LogRecord) -> None:
        if not self._admits():
            self._hook_exit()
            return
        self.tell_left_out()
        _mark(_text(record), _labels(record), record.created)
        if self._recorded == limits.LOG_MARKS:
            _mark(
                f"{limits.LOG_MARKS:,} log messages recorded; further ones of this process are only counted",
                {},
                None,
            )

    def _admits(self) -> bool:
        """Return whether there is room for one more message. Count it in either case."""
        with self._lock:
            now_s = self._now()
            self._room = min(
                float(limits.LOG_MARKS_A_SECOND), self._room + (now_s - self._filled_s) * limits.LOG_MARKS_A_SECOND
            )
            self._filled_s = now_s
            admits = self._room >= 1 and self._recorded < limits.LOG_MARKS
            self._room -= admits
            self._recorded += admits
            self._left_out += not admits
            return admits

    def _hook_exit(self) -> None:
        """Tell the rest at exit, before the client ends. Children of multiprocessing skip `atexit`."""
        if not self._has_exit_hook:
            self._has_exit_hook = True
            atexit.register(self.tell_left_out)
            util: Any = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, self.tell_left_out, exitpriority=0)


def _is_foreign(record: logging.LogRecord) -> bool:
    """Return whether a record comes from telemetry, or from another process that hands its records over."""
    return record.process not in (None, os.getpid()) or f"{record.name}.".startswith(f"{_OURS}.")


def _text(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 – arguments that don't fit, or a `__str__` that raises; handlers report it
        text = str(record.msg)
    first, *more = text.strip().splitlines() or [""]
    return _cut(first) + (" …" if more or len(first) > _CHARS else "")


def _cut(text: str) -> str:
    """Return the first characters of a text. It is masked before it is cut."""
    from telemetry.client.redaction import REDACTION  # only now, as below

    return REDACTION.redactor.cut_text(text, _CHARS)


def _labels(record: logging.LogRecord) -> dict[str, object]:
    labels: dict[str, object] = {
        "logger": record.name,
        "level": record.levelname,
        "where": f"{record.filename}:{record.lineno}",
    }
    if record.exc_info and record.exc_info[0] is not None:
        labels["exception"] = _cut(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
    return labels


def _mark(text: str, labels: dict[str, object], unix_s: float | None) -> None:
    from telemetry.client import module_level  # only now: most processes import logging and never warn
    from telemetry.client.process import PROCESS
    from telemetry.client.wall_time import monotonic_ns

    if PROCESS.state != "finished":  # a mark would count as lost
        module_level.mark(text, at_ns=monotonic_ns(unix_s), labels=labels)


_MESSAGES: Final = Messages()


def _patches(module: ModuleType) -> list[Patch]:
    return [Patch(module.Logger, "callHandlers", _observed)]


def _observed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Logger.callHandlers` with the capture behind it.

    Messages that a handler logs are observed as well, so `Observers.after` would be wrong here.
    """

    def call(logger: logging.Logger, record: logging.LogRecord, *args: Any, **kwargs: Any) -> Any:
        result = original(logger, record, *args, **kwargs)
        _OBSERVERS.run(_WHAT, _MESSAGES.observe, record)
        return result

    return call


_CAPTURE: Final = Capture({"logging": _patches}, "logging")
os.register_at_fork(after_in_child=_MESSAGES.forget)


def install() -> None:
    """Record a mark for each message of level WARNING or above, from now on."""
    _CAPTURE.install()


def uninstall() -> None:
    """Restore `logging`."""
    _CAPTURE.uninstall()
    _MESSAGES.tell_left_out()
