"""The headlines of a run: those that the user chose, or a guess by what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from telemetry.headline_choice import chosen
from telemetry.headlines.chosen import chosen_figures
from telemetry.headlines.loads import Load
from telemetry.headlines.metrics import metrics_headline
from telemetry.headlines.model import Flavour, Headline
from telemetry.headlines.totals import AllKinds
from telemetry.headlines.training import Training
from telemetry.rates import Paces
from telemetry.request_model import request_counts
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot


def all_kinds(snapshot: MetricsSnapshot, *, seconds: float | None = None) -> Headline | None:
    """Return the headline of all requests of a run, or of a time range of `seconds`.

    None for fewer than two kinds.
    """
    if seconds is not None:
        snapshot = replace(snapshot, elapsed_s=seconds)
    loads = _loads(snapshot, recent=False, requests=(), seconds=seconds)
    return AllKinds(loads, snapshot, recent=False, seconds=seconds).headline() if len(loads) > 1 else None


def headline(
    snapshot: MetricsSnapshot,
    *,
    recent: bool,
    curves: Sequence[StepCurve] = (),
    speeds: Mapping[str, float] = MappingProxyType({}),
    requests: Sequence[RequestFigures] = (),
    seconds: float | None = None,
) -> list[Headline]:
    """Return the headlines of a run, the most important first; empty if nothing was recorded.

    Several kinds of requests have a headline of all of them before their own.

    `recent`: figures of the last seconds, for a run that goes on. Otherwise those of the whole run. `curves` add
    first and best values of steps; `speeds` has the recent steps per second by axis; `requests` add figures that a
    snapshot lacks. `seconds` is the length of the time range of its figures, if they do not cover the whole run. A
    choice of the user is the only headline.
    """
    if seconds is not None:
        snapshot = replace(snapshot, elapsed_s=seconds)
    axes = [axis for axis in snapshot.axes if axis.closed]
    if not recent:
        paces = Paces(snapshot)
        speeds = {axis.name: speed for axis in axes if (speed := paces.steps_per_s(axis.name)) is not None}
    trained = [
        Training(axis, speeds.get(axis.name), recent=recent, curves=curves, progress=snapshot.progress)
        for axis in axes
    ]
    loads = _loads(snapshot, recent=recent, requests=requests, seconds=seconds)
    # Steps with values are a training run, even if it sends requests; steps without values only count a loop.
    trained.sort(key=lambda one: not one.axis.values)
    training = [one.headline() for one in trained if one.axis.values]
    loops = [one.headline() for one in trained if not one.axis.values]
    of_requests = [load.headline() for load in loads]
    if len(loads) > 1:
        of_requests.insert(0, AllKinds(loads, snapshot, recent=recent, seconds=seconds).headline())
    guess = [*training, *of_requests, *loops] or metrics_headline(snapshot, recent=recent)
    choices = chosen(snapshot.params)
    if not choices:
        return guess
    flavour: Flavour = guess[0].flavour if guess else "metrics"
    return [Headline(flavour, "", chosen_figures(choices, snapshot, trained, loads, recent=recent))]


def _loads(
    snapshot: MetricsSnapshot, *, recent: bool, requests: Sequence[RequestFigures], seconds: float | None
) -> list[Load]:
    """Return the kinds of requests, the busiest first."""
    kinds = sorted((kind for kind in request_counts(snapshot) if kind.issued), key=lambda kind: -kind.issued)
    return [Load(kind, snapshot, recent=recent, figures=requests, seconds=seconds) for kind in kinds]
