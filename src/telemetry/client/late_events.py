"""Events that are recorded when no producer takes them any more: their number, and the line about them at exit."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from telemetry.client import user_warnings
from telemetry.client.recorders import Rows
from telemetry.client.signal_safe import Tally
from telemetry.common.formatting import number_of

_AT_EXIT: Final = (
    b"telemetry: events recorded while the program was ending are not in the result: record them before it ends\n"
)
_ROW: Final = 3  # numbers of a row


class LateEvents:
    """A count of late events. Its `hit` functions are safe from anywhere, as those of a `Tally`."""

    def __init__(self) -> None:
        self._tally = Tally()
        self.hit_many = self._tally.hit_many
        self.reason = ""
        """Error that ended the producer before `finish`. Empty: the events came after it."""
        self._total_at_end = 0
        self._is_last_chance = False
        self._write = os.write  # Python clears modules before it destroys the last objects

    def hit(self) -> None:
        """Count an event."""
        self.hit_many(1)
        if self._is_last_chance:
            self._say_now()

    def hit_rows(self, rows: Rows) -> None:
        """Count events, instead of recording their rows."""
        self.hit_many(len(rows) // _ROW)
        if self._is_last_chance:
            self._say_now()

    def expect_exit(self) -> None:
        """Print a line at the next event: the process ends, and there may be no further call of `warn`."""
        self._is_last_chance = not self.reason

    def reopen(self) -> None:
        """Begin anew, with a new producer."""
        self.reason = ""
        self._is_last_chance = False

    @property
    def total(self) -> int:
        return self._tally.total

    def take(self) -> int:
        """Return the number of events since the last `take`."""
        return self._tally.take()

    def note_end(self) -> None:
        """Note that the producer ends now."""
        self._total_at_end = self.total

    def came_since_end(self) -> bool:
        """Check whether an event was late since then."""
        return self.total > self._total_at_end

    def warn(self) -> None:
        """Print the number of events since the last call, if there are any."""
        late = self.take()
        if not late:
            return
        events = number_of(late, "event was", "events were")
        if self.reason:
            user_warnings.warn(f"{events} lost: {self.reason}")
        else:
            not_in = "is not in the result" if late == 1 else "are not in the result"
            user_warnings.warn(f"{events} recorded after finish() and {not_in}")

    def _say_now(self) -> None:
        self._is_last_chance = False
        with suppress(OSError):
            self._write(2, _AT_EXIT)
