"""The report as JSON: the final file and all that was derived from it. Its schema is docs/report.schema.json."""

from __future__ import annotations

from typing import Final

import msgspec

from telemetry.common.formatting import printable_json
from telemetry.report import brief
from telemetry.store.final_snapshot import strict_json
from telemetry.wire.report import Report

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
