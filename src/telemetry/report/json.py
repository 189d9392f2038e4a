"""The report as JSON, with all that was derived from the final file, and its schema."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

import msgspec

from telemetry.common.formatting import printable_json
from telemetry.report import brief
from telemetry.store.final_snapshot import strict_json
from telemetry.wire import gates, imported, pictures, report, snapshot, sources
from telemetry.wire.report import Report
from telemetry.wire.version import SCHEMA

SAID: Final = {
    "verdict": "How complete the result is, in one word; what the run does while it goes on and could be asked.",
    "headline": "One line: how complete, what run, how many events, how many lost, or what is unknown of that.",
    "went_well": "One line about a run that went well, and by what that is known. Empty for any other.",
    "concerns": "What did not go well although the data may be complete: values that are not finite, and failures.",
}
"""Descriptions of JSON members that are not fields but methods of `Report`."""
OWN: Final = tuple(field for field in Report.__struct_fields__ if field != "snapshot")


def render_json(report: Report) -> str:
    """Return one strict JSON object, indented, ending with a newline.

    Its names are those of `final_snapshot.json` and of `Report`. A number that is not finite is null, and a warning
    names it.
    """
    document = msgspec.to_builtins(report.snapshot)
    document |= {"verdict": report.verdict, "headline": report.headline()}
    document |= {"went_well": brief.went_well(report), "concerns": list(brief.concerns(report))}
    document |= {name: msgspec.to_builtins(getattr(report, name)) for name in OWN}
    return printable_json(strict_json(document).decode())


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_LEFT_OUT: Final = ("default", "propertyNames")
"""Keys: all names are in the output, so no default applies; msgspec describes enums of names only from 0.23 on."""
_HOMES: Final = (gates, imported, pictures, report, snapshot, sources)


def json_schema() -> dict[str, Any]:
    """Return the schema of the output of `render_json`: every name is present, and any number may be null."""
    _, parts = msgspec.json.schema_components(
        [snapshot.MetricsSnapshot, report.Report], ref_template="#/$defs/{name}"
    )
    for name, part in parts.items():
        _describe(name, part)
    own, whole = parts.pop("Report")["properties"], parts.pop("MetricsSnapshot")
    properties = {
        **whole["properties"],
        "schema_version": {"type": "integer", "maximum": SCHEMA},
        **{name: {"type": "string", "description": description} for name, description in SAID.items()},
        "concerns": {"type": "array", "items": {"type": "string"}, "description": SAID["concerns"]},
        **{name: own[name] for name in OWN},
    }
    schema = {
        "$schema": _DIALECT,
        "title": "A report of telemetry",
        "description": "What `telemetry report --format json` writes. "
        "A number that was not finite is null, and a warning says which.",
        "type": "object",
        "properties": properties,
        "$defs": parts,
    }
    result: dict[str, Any] = _as_written(schema)
    return result


def _describe(name: str, part: dict[str, Any]) -> None:
    """Copy the docstrings of a struct and of its fields into the schema."""
    struct = next(getattr(home, name) for home in _HOMES if hasattr(home, name))
    if struct.__doc__:
        part["description"] = " ".join(struct.__doc__.split())
    (body,) = ast.parse(dedent(inspect.getsource(struct))).body
    lines = body.body if isinstance(body, ast.ClassDef) else []
    for field, docstring in pairwise(lines):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(docstring, ast.Expr)
        ):
            described = part["properties"][field.target.id]
            described["description"] = " ".join(ast.literal_eval(docstring.value).split())


def _as_written(schema: Any) -> Any:
    """Adapt the schema to the output, which has all names, and null for numbers that are not finite."""
    if isinstance(schema, list):
        return [_as_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _as_written(item) for key, item in schema.items() if key not in _LEFT_OUT}
    if result.get("type") == "number":
        result["type"] = ["number", "null"]
    if result.get("type") == "object" and "properties" in result:
        result["required"] = list(result["properties"])
    return result
