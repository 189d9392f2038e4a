"""The dashboards of the stack, each from one description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from telemetry.stack.dashboards.grafana import dashboard_json
from telemetry.stack.dashboards.machine import MACHINE
from telemetry.stack.dashboards.metrics import METRICS
from telemetry.stack.dashboards.model import Dashboard
from telemetry.stack.dashboards.ranks import RANKS
from telemetry.stack.dashboards.ray import RAY
from telemetry.stack.dashboards.requests import REQUESTS
from telemetry.stack.dashboards.run import RUN
from telemetry.stack.dashboards.training import TRAINING
from telemetry.store.atomic import write_atomic

DASHBOARDS: Final = (RUN, REQUESTS, TRAINING, RANKS, MACHINE, METRICS, RAY)


def text(dashboard: Dashboard) -> str:
    """Return a dashboard as the content of a file."""
    return json.dumps(dashboard_json(dashboard), indent=2, ensure_ascii=False) + "\n"


def write(directory: Path) -> list[Path]:
    """Write a JSON file for each dashboard. Returns their paths. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for dashboard in DASHBOARDS:
        path = directory / f"{dashboard.name}.json"
        write_atomic(path, text(dashboard).encode(), durable=False)
        paths.append(path)
    return paths
