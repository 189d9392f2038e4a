"""The report as JSON: the final file to the letter, and where the numbers came from."""

from __future__ import annotations

import json

from telemetry.store.final import final_json
from telemetry.wire.report import Report


def render_json(report: Report) -> str:
    """One strict JSON object with the names of `final_snapshot.json`, indented, ending with a newline.

    A number that is not finite is null, and a warning says which.
    """
    snapshot = final_json(report.snapshot).decode().rstrip().removesuffix("}").rstrip()
    source = f'"source": {json.dumps(report.source)}'
    reason = f'"source_reason": {json.dumps(report.source_reason, ensure_ascii=False)}'
    return f"{snapshot},\n  {source},\n  {reason}\n}}\n"
