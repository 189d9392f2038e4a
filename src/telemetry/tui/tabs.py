"""The table of tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from telemetry.tui.model import export
from telemetry.tui.model.request_flow import has_requests
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.spans import has_spans
from telemetry.tui.model.steps import has_steps


class Tab(NamedTuple):
    title: str
    screen: str
    """Its class, as `module.Class` of `telemetry.tui.screens`, which may import this table."""
    content: Callable[[Scene, View], dict[str, Any]]
    """Function that returns the content as JSON."""
    exists: Callable[[Scene], bool] = lambda scene: True
    """Returns False for a run that has nothing to show in the tab."""
    help: str = ""
    """Content in the help of its key, if the title does not say enough."""


TABS: Final = {
    "overview": Tab("Overview", "overview.OverviewScreen", export.overview),
    "producers": Tab("Producers", "producers.ProducersScreen", export.producers_shown),
    "log": Tab("Log", "log.LogScreen", export.log),
    "requests": Tab("Requests", "requests.RequestsScreen", export.requests, has_requests),
    "steps": Tab("Steps", "steps.StepsScreen", export.steps, has_steps, "steps and backends"),
    "spans": Tab("Spans", "spans.SpansScreen", export.spans, has_spans),
}
"""Place → tab, in the order of their keys 1, 2, …, which stay the same if a tab is missing.

A new tab is an entry here and a module in `screens`. `keys.TABLE` has the keys that work in it.
"""
