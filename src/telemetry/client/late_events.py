"""Events that are recorded when no producer takes them any more: their number, and the line about them at exit."""

from __future__ import annotations

from typing import Final

from telemetry.client import notice
from telemetry.client.recorders import Rows
from telemetry.client.tally import Tally
from telemetry.formatting import number_of

_ROW: Final = 3  # numbers of a row


class LateEvents:
    """A count of late events. Its `hit` functions are safe from anywhere, as those of a `Tally`."""

    def __init__(self) -> None:
        self._tally = Tally()
        self.hit = self._tally.hit
        self.hit_many = self._tally.hit_many
        self.reason = ""
        """Error that ended the producer before `finish`. Empty: the events came after it."""
        self._total_at_end = 0

    def hit_rows(self, rows: Rows) -> None:
        """Count events, instead of recording their rows."""
        self.hit_many(len(rows) // _ROW)

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
            notice.warn(f"{events} lost: {self.reason}")
        else:
            not_in = "is not in the result" if late == 1 else "are not in the result"
            notice.warn(f"{events} recorded after finish() and {not_in}")
