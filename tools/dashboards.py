"""Writer of the dashboards in the package: descriptions of `dashboards.yaml`, as JSON for Grafana 10, 11 and later.

python tools/dashboards.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase
from types import MappingProxyType
from typing import Any, Final

import yaml

Json = dict[str, Any]
DESCRIPTIONS: Final = Path(__file__).with_suffix(".yaml")
PACKAGE: Final = Path(__file__).parents[1] / "src/telemetry/stack/dashboards"
WIDTH: Final = 24
DATA_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
ORDERS: Final = {"query": 0, "ascending": 1, "descending": 2}
RUN: Final[Json] = {
    "name": "run",
    "label": "Run",
    "query": "query_result(sort_desc(max by (run) (max_over_time(telemetry_run_start_time_seconds[$__range]))))",
    "regex": '/run="([^"]+)"/',
    "order": "query",
    "has_all": True,
}
"""The run. The newest one is first, so it is shown when a dashboard opens."""
LINK: Final[Json] = {
    "type": "dashboards",
    "title": "telemetry",
    "tags": ["telemetry"],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "",
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    for name, description in yaml.safe_load(DESCRIPTIONS.read_text()).items():
        text = json.dumps(dashboard(name, **description), indent=2, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n")


def dashboard(
    name: str, title: str, question: str, rows: Mapping[str, list[Json]], variables: Iterable[Json] = ()
) -> Json:
    return {
        "uid": f"telemetry-{name}",
        "title": f"telemetry / {title}",
        "description": question,
        "tags": ["telemetry"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # a crosshair that all panels share
        "timezone": "browser",
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "5s",
        "templating": {
            "list": [
                {
                    "type": "datasource",
                    "name": "datasource",
                    "label": "Data source",
                    "query": "prometheus",
                    "hide": 0,
                },
                *(variable(**description) for description in (RUN, *variables)),
                {"type": "adhoc", "name": "filters", "label": "Filters", "datasource": DATA_SOURCE, "hide": 0},
            ]
        },
        "annotations": {"list": []},
        "links": [LINK],
        "panels": list(panels(rows)),
    }


def variable(
    *,
    name: str,
    label: str,
    query: str,
    regex: str = "",
    order: str = "ascending",
    has_all: bool = False,
    has_many: bool = False,
) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATA_SOURCE,
        "query": promql(query),
        "regex": regex,
        "refresh": 2,  # also when the time range changes
        "sort": ORDERS[order],
        "includeAll": has_all,
        "multi": has_many,
        "hide": 0,
        **({"allValue": ".*"} if has_all else {}),
    }


def panels(rows: Mapping[str, list[Json]]) -> Iterator[Json]:
    number, top = 1, 0
    for title, descriptions in rows.items():
        area = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        yield {"type": "row", "id": number, "title": title, "collapsed": False, "gridPos": area, "panels": []}
        number, top = number + 1, top + 1
        left = height = 0
        for description in descriptions:
            drawn = panel(**description)
            size = drawn["gridPos"]
            if left + size["w"] > WIDTH:
                left, top, height = 0, top + height, 0
            yield {"id": number, **drawn, "gridPos": size | {"x": left, "y": top}}
            number, left, height = number + 1, left + size["w"], max(height, size["h"])
        top += height


def promql(query: str) -> str:
    return query.replace("ANY_RUN", 'run=~"$run|"').replace("RUN", 'run=~"$run"')


# --- panels --------------------------------------------------------------------------------------


def panel(
    *,
    question: str,
    queries: Json,
    unit: str = "short",
    width: int = 0,
    height: int = 0,
    repeat: str = "",
    **options: Any,
) -> Json:
    (kind,) = KINDS.keys() & options.keys()
    title = options.pop(kind)
    usual_width, usual_height = (4, 4) if kind == "stat" else (12, 8)
    is_instant = kind == "table" or (kind == "stat" and not options.get("over_time"))
    drawn: Json = {
        "gridPos": {"h": height or usual_height, "w": width or usual_width},
        "title": title,
        "description": question,
        "datasource": DATA_SOURCE,
        **KINDS[kind](unit, list(queries), **options),
        "targets": [
            {
                "refId": ref,
                "datasource": DATA_SOURCE,
                "editorMode": "code",
                "expr": promql(query),
                "legendFormat": "{{le}}" if kind == "heatmap" else legend or "__auto",
                "format": kind if kind in ("table", "heatmap") else "time_series",
                "instant": is_instant,
                "range": not is_instant,
            }
            for ref, (legend, query) in zip(ascii_uppercase, queries.items(), strict=False)
        ],
    }
    return drawn | ({"repeat": repeat, "repeatDirection": "h", "maxPerRow": 3} if repeat else {})


def lines(
    unit: str,
    _: list[str],
    stacked: bool = False,
    least: float | None = 0.0,
    most: float | None = None,
    colors: Mapping[str, str] = MappingProxyType({}),
) -> Json:
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    ends = {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    return {
        "type": "timeseries",
        "fieldConfig": {
            "defaults": {"unit": unit, "color": {"mode": "palette-classic"}, "custom": custom, **ends},
            "overrides": colored(colors),
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def stat(
    unit: str,
    _: list[str],
    shows: str = "value",
    over_time: bool = False,
    thresholds: Mapping[float, str] = MappingProxyType({}),
    colors: Mapping[str, str] = MappingProxyType({}),
) -> Json:
    steps = {None: "green" if thresholds else "text", **thresholds}
    return {
        "type": "stat",
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "color": {"mode": "thresholds"},
                "thresholds": {
                    "mode": "absolute",
                    "steps": [{"value": value, "color": color} for value, color in steps.items()],
                },
            },
            "overrides": colored(colors),
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "auto",
            "textMode": shows,
            "colorMode": "background" if colors else "value",
            "graphMode": "area" if over_time else "none",
            "justifyMode": "auto",
        },
    }


def table(
    unit: str,
    legends: list[str],
    labels: Mapping[str, str],
    units: Mapping[str, str] = MappingProxyType({}),
    sort_by: str = "",
) -> Json:
    headers = {label: header for label, header in labels.items() if label != header}
    headers |= {f"Value #{ref}": legend for ref, legend in zip(ascii_uppercase, legends, strict=False)}
    if len(legends) == 1:
        headers["Value"] = legends[0]  # Grafana's name for the value of an only query
    order = [*labels, *(name for name in headers if name not in labels)]
    return {
        "type": "table",
        "fieldConfig": {
            "defaults": {"unit": unit},
            "overrides": [override(header, "unit", value) for header, value in units.items()],
        },
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": sort_by, "desc": True}] if sort_by else [],
        },
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {name: position for position, name in enumerate(order)},
                    "renameByName": headers,
                },
            },
        ],
    }


def heatmap(unit: str, _: list[str]) -> Json:
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
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
        },
    }


def colored(colors: Mapping[str, str]) -> list[Json]:
    return [override(name, "color", {"mode": "fixed", "fixedColor": color}) for name, color in colors.items()]


def override(name: str, key: str, value: object) -> Json:
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": key, "value": value}]}


KINDS: Final = {"lines": lines, "stat": stat, "table": table, "heatmap": heatmap}

if __name__ == "__main__":
    main()
