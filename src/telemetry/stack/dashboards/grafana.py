"""The conversion of a description to Grafana's JSON: the form of Grafana 10 and 11, which later ones read too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import ascii_uppercase
from typing import Any, Final

from telemetry.stack.dashboards.model import (
    WIDTH,
    Dashboard,
    Heatmap,
    Panel,
    Stat,
    Table,
    Target,
    TimeSeries,
    Variable,
)

Json = dict[str, Any]
TAG: Final = "telemetry"
DATA_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA: Final = 39
_ON_TIME_RANGE: Final = 2
"""Variables are filled again when the time range changes, also by a refresh."""
_ORDERS: Final = {"query": 0, "ascending": 1, "descending": 2}
_SHARED_CROSSHAIR: Final = 1
_PER_LINE: Final = 3
"""Panels side by side that a variable repeats."""


def dashboard_json(dashboard: Dashboard) -> Json:
    """Return a dashboard as Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.question,
        "tags": [TAG],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": _SHARED_CROSSHAIR,
        "timezone": "browser",
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "5s",
        "templating": {"list": list(_variables(dashboard))},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "telemetry",
                "tags": [TAG],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "icon": "external link",
                "tooltip": "",
            }
        ],
        "panels": list(_panels(dashboard)),
    }


# --- variables -----------------------------------------------------------------------------------


def _variables(dashboard: Dashboard) -> Iterator[Json]:
    yield {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "hide": 0}
    yield from map(_variable, dashboard.all_variables)
    yield {"type": "adhoc", "name": "filters", "label": "Filters", "datasource": DATA_SOURCE, "hide": 0}


def _variable(variable: Variable) -> Json:
    found: Json = {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": DATA_SOURCE,
        "query": variable.promql,
        "regex": variable.regex,
        "refresh": _ON_TIME_RANGE,
        "sort": _ORDERS[variable.order],
        "includeAll": variable.has_all,
        "multi": variable.has_many,
        "hide": 0,
    }
    if variable.has_all:
        found["allValue"] = ".*"
    return found


# --- layout --------------------------------------------------------------------------------------


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    number, top = 1, 0
    for row in dashboard.rows:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        yield {"type": "row", "id": number, "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, top = number + 1, top + 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top, height = 0, top + height, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            number, left, height = number + 1, left + panel.width, max(height, panel.height)
        top += height


# --- panels --------------------------------------------------------------------------------------


def _panel(panel: Panel) -> Json:
    found: Json = {
        "title": panel.title,
        "description": panel.question,
        "datasource": DATA_SOURCE,
        **_kind(panel),
        "targets": [_target(panel, target, ascii_uppercase[at]) for at, target in enumerate(panel.targets)],
    }
    if panel.repeat:
        found |= {"repeat": panel.repeat, "repeatDirection": "h", "maxPerRow": _PER_LINE}
    return found


def _target(panel: Panel, target: Target, ref: str) -> Json:
    once = isinstance(panel, Table) or (isinstance(panel, Stat) and not panel.over_time)
    form = "table" if isinstance(panel, Table) else "heatmap" if isinstance(panel, Heatmap) else "time_series"
    return {
        "refId": ref,
        "datasource": DATA_SOURCE,
        "editorMode": "code",
        "expr": target.promql,
        "legendFormat": "{{le}}" if isinstance(panel, Heatmap) else target.legend or "__auto",
        "format": form,
        "instant": once,
        "range": not once,
    }


def _kind(panel: Panel) -> Json:
    if isinstance(panel, TimeSeries):
        return _time_series(panel)
    if isinstance(panel, Stat):
        return _stat(panel)
    if isinstance(panel, Table):
        return _table(panel)
    if isinstance(panel, Heatmap):
        return _heatmap(panel)
    raise TypeError(f"there is no panel of the kind {type(panel).__name__}")


def _time_series(panel: TimeSeries) -> Json:
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if panel.stacked else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    defaults: Json = {"unit": panel.unit, "color": {"mode": "palette-classic"}, "custom": custom}
    if panel.least is not None:
        defaults["min"] = panel.least
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": _colored(panel.colors)},
        "options": {
            "legend": {
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _stat(panel: Stat) -> Json:
    steps: list[Json] = [{"value": None, "color": "green" if panel.thresholds else "text"}]
    steps += [{"value": value, "color": color} for value, color in panel.thresholds]
    return {
        "type": "stat",
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "color": {"mode": "thresholds"},
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": _colored(panel.colors),
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "auto",
            "textMode": panel.shows,
            "colorMode": "background" if panel.colors else "value",
            "graphMode": "area" if panel.over_time else "none",
            "justifyMode": "auto",
        },
    }


def _table(panel: Table) -> Json:
    headers = {label: header for label, header in panel.labels.items() if label != header}
    for ref, target in zip(ascii_uppercase, panel.targets, strict=False):
        headers[f"Value #{ref}"] = target.legend
    if len(panel.targets) == 1:
        headers["Value"] = panel.targets[0].legend  # Grafana's name for the value of an only query
    overrides = [_override(header, "unit", unit) for header, unit in panel.units.items()]
    order = [*panel.labels, *(name for name in headers if name not in panel.labels)]
    return {
        "type": "table",
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": overrides},
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": panel.sort_by, "desc": True}] if panel.sort_by else [],
        },
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {name: at for at, name in enumerate(order)},
                    "renameByName": headers,
                },
            },
        ],
    }


def _heatmap(panel: Heatmap) -> Json:
    return {
        "type": "heatmap",
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {
            "calculate": False,
            "cellGap": 1,
            "color": {
                "mode": "scheme",
                "scheme": "Oranges",
                "fill": "dark-orange",
                "scale": "exponential",
                "exponent": 0.5,
                "steps": 64,
                "reverse": False,
            },
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": True},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": panel.unit},
        },
    }


def _colored(colors: Mapping[str, str]) -> list[Json]:
    return [_override(name, "color", {"mode": "fixed", "fixedColor": color}) for name, color in colors.items()]


def _override(name: str, key: str, value: object) -> Json:
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": key, "value": value}]}
