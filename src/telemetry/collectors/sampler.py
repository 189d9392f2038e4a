"""The thread of one collector: it makes the collector, takes samples, and survives errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from telemetry.collectors.collector import ONCE_S, Collector, NotAvailable, NotConfigured
from telemetry.errors import TelemetryError, UsageError
from telemetry.formatting import count, duration_s, number_of, printable

if TYPE_CHECKING:
    from telemetry.client.run import Run

_PAUSE_S: Final = 2.0
"""Pause after the first error. It doubles with each further error, up to `_PAUSE_MOST_S`."""
_PAUSE_MOST_S: Final = 60.0
_DOUBLINGS: Final = 8
_LEAST_S: Final = 0.1
"""Shortest pause between two samples, whatever the collector wants."""
_HANGS_S: Final = 10.0
"""Time after which a call into a collector counts as one that does not return."""


class Sampler(threading.Thread):
    """A thread that samples one collector until it is asked to end.

    `make` creates the collector and may raise anything. `say` gets each message for the user.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Collector],
        run: Run,
        say: Callable[[str], object],
        *,
        interval_s: float,
        asked_for: bool,
        pause_s: float = _PAUSE_S,
        hangs_s: float = _HANGS_S,
    ) -> None:
        super().__init__(name=f"telemetry-{name}", daemon=True)
        self.collector_name = name
        self.samples = 0
        """Number of samples that were recorded."""
        self.failures = 0
        """Number of samples that failed."""
        self.last_error = ""
        self.is_absent = False
        """True if the collector can't work here: what it observes is missing, or its options are wrong."""
        self._make = make
        self._run_ = run
        self._say = say
        self._interval_s = self._usual_s = interval_s
        self._asked_for = asked_for
        self._pause_s = pause_s
        self._hangs_s = hangs_s
        self._failed_in_a_row = 0
        self._call_began_s: float | None = None
        """Start of the call into the collector that goes on; None between two calls."""
        self._ending = threading.Event()

    @property
    def failed(self) -> bool:
        """True if the user asked for this collector, and it can't work here, hangs, or failed at the end."""
        return self._asked_for and (self.is_absent or self._failed_in_a_row > 0 or self._hangs)

    @property
    def _hangs(self) -> bool:
        return self._call_s >= self._hangs_s

    @property
    def _call_s(self) -> float:
        """Age of the call that goes on; 0 between two calls."""
        began_s = self._call_began_s
        return time.monotonic() - began_s if began_s is not None else 0.0

    def ask_to_end(self) -> None:
        """Take a last sample, then end. Does not block."""
        self._ending.set()

    def run(self) -> None:
        collector = self._made()
        if collector is None:
            return
        try:
            due_s = time.monotonic()
            while not self._ending.wait(max(0.0, due_s - time.monotonic())):
                begun_s = time.monotonic()
                if self._sample(collector):
                    # keep the beat, but don't catch up on samples that a slow one has delayed
                    due_s = max(due_s + self._interval_s, begun_s)
                else:
                    due_s = time.monotonic() + self._pause_after_error()
            if not self._failed_in_a_row:
                self._sample(collector)
        finally:
            self._close(collector)

    def conclusion(self) -> str:
        """Return the line about failed samples at the end of a run; empty without any."""
        if self._hangs:
            return f"it hangs: a call has not returned for {duration_s(self._call_s)}; its figures end there"
        if not self.failures:
            return ""
        taken = self.samples + self.failures
        return f"{count(self.failures)} of {number_of(taken, 'sample')} failed; the last error: {self.last_error}"

    # --- calls into the collector ----------------------------------------------------------------

    def _made(self) -> Collector | None:
        self._call_began_s = time.monotonic()
        try:
            return self._make()
        except NotAvailable as error:
            self.is_absent = True
            self.last_error = _one_line(f"{error.reason} ({error.hint})" if error.hint else error.reason)
            if self._asked_for:
                self._say(self.last_error)
        except (NotConfigured, UsageError) as error:
            self.is_absent = True
            self.last_error = _one_line(str(error))
            self._say(self.last_error)
        except BaseException as error:  # noqa: BLE001 – code of other packages, which may call sys.exit
            self.is_absent = True
            self.last_error = _words(error)
            self._say(f"can't start: {self.last_error}")
        finally:
            self._call_began_s = None
        return None

    def _interval_of(self, collector: Collector) -> float:
        """Return the pause that a collector wants, within bounds. Raises whatever its attribute makes of it."""
        wanted_s = float(getattr(collector, "interval_s", 0.0)) or self._usual_s
        return min(max(_LEAST_S, wanted_s), ONCE_S)

    def _pause_after_error(self) -> float:
        return min(self._pause_s * 2.0 ** min(self._failed_in_a_row - 1, _DOUBLINGS), _PAUSE_MOST_S)

    def _sample(self, collector: Collector) -> bool:
        """Take a sample. Return whether it succeeded."""
        self._call_began_s = time.monotonic()
        try:
            collector.sample(self._run_)
            self._interval_s = self._interval_of(collector)
        except BaseException as error:  # noqa: BLE001 – as above; counted, and said once
            self.failures += 1
            self._failed_in_a_row += 1
            self.last_error = _words(error)
            if self.failures == 1:
                self._say(f"a sample failed: {self.last_error}; it is tried again")
            return False
        finally:
            self._call_began_s = None
        self.samples += 1
        self._failed_in_a_row = 0
        return True

    def _close(self, collector: Collector) -> None:
        try:
            collector.close()
        except BaseException as error:  # noqa: BLE001 – as above
            self._say(f"can't close: {_words(error)}")


def _words(error: BaseException) -> str:
    if isinstance(error, TelemetryError):
        return _one_line(str(error))
    return _one_line(f"{type(error).__name__}: {error}".removesuffix(": "))


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))[:500]
