"""The report as JSON: the final file and all that was made of it. Its schema is docs/report.schema.json."""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.formatting import printable_json
from telemetry.store.final_snapshot import strict_json
from telemetry.wire.report import Report

SAID: Final = {
    "verdict": "How complete the result is, in one word; what the run does while it goes on and could be asked.",
    "headline": "One line: how complete, what run, how many events, how many lost, or what is unknown of that.",
}
"""What is in the JSON and no field, but is said of it by `Report`."""
OWN: Final = tuple(field for field in Report.__struct_fields__ if field != "snapshot")


def render_json(report: Report) -> str:
    """One strict JSON object with the names of `final_snapshot.json` and those of `Report`, indented, ending with a
    newline. A number that is not finite is null, and a warning says which."""
    document = msgspec.to_builtins(report.snapshot)
    document |= {"verdict": report.verdict, "headline": report.headline()}
    document |= {name: msgspec.to_builtins(getattr(report, name)) for name in OWN}
    return printable_json(strict_json(document).decode())
