"""Dashboards: Grafana's own types read them, and nothing in them refers to what is not there."""

from __future__ import annotations

import enum
import json
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as grafana

from telemetry.stack.layout import DASHBOARDS

register_default_plugins()
BUILT_IN = {"__rate_interval", "__range", "datasource"}
WIDTH = 24
GENERATOR = Path(__file__).parents[3] / "tools" / "dashboards.py"
Json = dict[str, Any]
PATHS = sorted(DASHBOARDS.glob("*.json"))
each_dashboard = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path: Path) -> Json:
    return dict(json.loads(path.read_text()))


def missing(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield the places in `ours` that `theirs` does not have, or has with another value."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from missing(value, theirs[key], f"{path}/{key}") if key in theirs else [f"{path}/{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from missing(own, other, f"{path}[{at}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} is {theirs!r}"


def wrong(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Yield the places below a value of Grafana's types that do not fit their annotations."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):  # such as the options of a kind of panel
        yield from wrong_fields(value, path) if hasattr(value, "from_json") else ()
        return
    if origin in (typing.Union, types.UnionType):
        found = [[*wrong(value, one, path)] for one in inside]  # the deepest place says most
        if all(found):
            yield from max(found, key=lambda places: max(place.split(":")[0].count("/") for place in places))
    elif origin is typing.Literal:
        if value not in inside:
            yield f"{path}: {value!r} is not in {inside}"
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
        else:
            for at, one in enumerate(value):
                yield from wrong(one, inside[0], f"{path}[{at}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no map"
        else:
            for key, one in value.items():
                yield from wrong(one, inside[1], f"{path}/{key}")
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in {one.value for one in hint}:
            yield f"{path}: {value!r} is not in {hint.__name__}"
    elif hint is float:
        if not isinstance(value, (int, float)):
            yield f"{path}: {value!r} is no number"
    elif isinstance(value, dict) and hasattr(hint, "from_json"):  # their reader leaves some as they are
        made = hint.from_json(value)
        yield from missing(value, made.to_json(), path)
        yield from wrong_fields(made, path)
    elif not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        yield f"{path}: {value!r} is no {hint.__name__}"
    elif hasattr(value, "from_json"):
        yield from wrong_fields(value, path)


def wrong_fields(value: Any, path: str) -> Iterator[str]:
    for key, hint in typing.get_type_hints(type(value)).items():
        yield from wrong(getattr(value, key), hint, f"{path}/{key}")


@each_dashboard
def test_the_types_of_grafana_read_all_of_it(path: Path) -> None:
    """Each field exists there, with a value of the right type; options of panels too."""
    ours = read(path)
    theirs = grafana.Dashboard.from_json(ours)
    assert [*missing(ours, json.loads(JSONEncoder(sort_keys=True).encode(theirs)))] == []
    assert [*wrong_fields(theirs, "")] == []
    for panel in theirs.panels or ():
        if isinstance(panel, grafana.Panel):
            assert type(panel.options).__module__.endswith(f".{panel.type_val}"), panel.type_val
            assert all(type(target).__module__.endswith(".prometheus") for target in panel.targets or ())


@each_dashboard
def test_panels_have_a_place_of_their_own(path: Path) -> None:
    """Panels don't overlap or pass the right edge, and their ids are unique."""
    panels = read(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (place["x"] + right, place["y"] + down) for right in range(place["w"]) for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@each_dashboard
def test_every_query_has_a_source_and_variables_that_exist(path: Path) -> None:
    """Queries and titles use only known variables, and a variable uses only those before it.

    Every query has a source.
    """
    found = read(path)
    known = set(BUILT_IN)
    for variable in found["templating"]["list"]:
        assert set(re.findall(r"\$\{?(\w+)", variable.get("query", ""))) <= known
        known.add(variable["name"])
    for panel in found["panels"]:
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(panel))) <= known, panel["title"]
        assert panel.get("repeat", "run") in known
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith((".", "?"))
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in (panel, *panel["targets"]):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert "RUN" not in target["expr"]
            assert target["instant"] != target["range"]


@each_dashboard
def test_titles_are_unique(path: Path) -> None:
    """Panels of a dashboard have unique titles, so that no two can be mistaken for each other."""
    titles = [panel["title"] for panel in read(path)["panels"] if panel["type"] != "row"]
    assert len(set(titles)) == len(titles)


def test_dashboards_are_told_apart() -> None:
    """Dashboards differ in uid, title and file. A uid has at most 40 characters."""
    for key in ("uid", "title"):
        assert len({read(path)[key] for path in PATHS}) == len(PATHS) == 7
    assert all(read(path)["uid"] == f"telemetry-{path.stem}" and len(path.stem) <= 30 for path in PATHS)


def test_the_package_has_what_the_descriptions_say(tmp_path: Path) -> None:
    """The dashboards in the package are those that the generator makes.

    If this fails after a change in tools/dashboards.yaml, run `python tools/dashboards.py`.
    """
    subprocess.run([sys.executable, GENERATOR, tmp_path], check=True, timeout=60)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        path.name: path.read_text() for path in PATHS
    }
