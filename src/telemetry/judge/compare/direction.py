"""The direction of a figure: whether a higher value is better or worse.

The first matching rule applies:

1. `--lower-is-better` and `--higher-is-better` patterns, in the syntax of `figure_names`. Without one, figures
   of the machine (`host.cpu`, `gpu.power`) are neither: a busier machine may be a faster job.
2. Time and CPU of the command: lower. Goodput and attainment of requests: higher.
3. A counter or series whose name has a word of trouble (`errors`, `timeouts`, `dropped`, …): lower, its rate and
   its share too. A count whose share of the requests is known is neither: a longer run has more errors.
4. Rates: higher; rates of counters of time: neither.
5. Values in a unit of time or bytes: lower. Values per second (`tokens/s`): higher.
6. Values of steps and series, by the words of their names (`common/directions.py`): `latency`, `loss`: lower;
   `throughput`, `accuracy`: higher.
7. Any other figure is neither: a difference is `changed`.

Rules 5 and 6 exclude totals of counters, because more bytes may mean more work done. Only 1 and 3 apply to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.common.directions import TROUBLE, Better, better_of_name, words_of
from telemetry.judge.compare.figure_names import matches
from telemetry.judge.compare.figures import SHARE, FigureKey
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.units import BYTES, TIME_NS

_PER_TIME: Final = re.compile(r".*(/|\bper\b) ?(s|sec|second|min|minute|h|hour)")


@dataclass(frozen=True)
class Directions:
    """The user's patterns for directions. Their syntax: `telemetry.judge.compare.figure_names`."""

    lower: Sequence[str] = ()
    higher: Sequence[str] = ()

    def of(self, figure: FigureKey, unit: str) -> Better:
        """Return the better direction of a figure. Patterns of `lower` take precedence."""
        for patterns, better in ((self.lower, "lower"), (self.higher, "higher")):
            if any(matches(figure, pattern) for pattern in patterns):
                return "lower" if better == "lower" else "higher"
        of_machine = figure.of == "counter" and is_of_machine(figure.name)
        return "neither" if of_machine else _by_rule(figure, unit)


def _by_rule(figure: FigureKey, unit: str) -> Better:
    if figure.of in ("requests", "steps") and figure.statistic != SHARE:
        named: dict[str, Better] = {"steps": "neither", "rate": "higher"}
        return "higher" if figure.of == "requests" else named.get(figure.statistic, better_of_name(figure.name))
    if figure.of == "command" or not TROUBLE.isdisjoint(words_of(figure.name)):
        return "lower"
    if figure.statistic == "rate":
        return "neither" if unit in TIME_NS else "higher"
    if figure.of == "counter":
        return "neither"
    if unit in TIME_NS or unit in BYTES or unit in ("B", "bytes"):
        return "lower"
    return "higher" if _PER_TIME.fullmatch(unit) else better_of_name(figure.name)
