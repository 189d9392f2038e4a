"""Pickling of instruments and kinds of requests.

The receiving process makes its own of the same name and attaches.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping

from telemetry.client.instruments import Counter, Gauge, Instrument, Series
from telemetry.client.requests.kind import Requests
from telemetry.wire.events import Define


def register_pickling() -> None:
    """Let `pickle` reduce instruments and kinds of requests."""
    for kind in (Counter, Gauge, Series):
        copyreg.pickle(kind, _pickled)
    copyreg.pickle(Requests, _pickled_requests)


def _pickled(instrument: Instrument) -> tuple[Callable[[Define], Instrument], tuple[Define]]:
    return _same_here, (instrument.definition,)


def _same_here(definition: Define) -> Instrument:
    from telemetry.client.process import PROCESS  # which imports this module

    return PROCESS.instrument(
        definition.kind,
        definition.name,
        definition.unit,
        definition.labels,
        digits=definition.digits,
        low=definition.low,
        high=definition.high,
    )


def _pickled_requests(kind: Requests) -> tuple[Callable[..., Requests], tuple[object, ...]]:
    return _same_requests_here, (kind.name, kind.labels, kind.expire_s, kind.stop_when, kind.slo)


def _same_requests_here(
    name: str, labels: Mapping[str, str], expire_s: float | None, stop_when: str, slo: str = ""
) -> Requests:
    from telemetry.client.process import PROCESS  # which imports this module

    return PROCESS.requests(name, labels, expire_s, stop_when, slo)
