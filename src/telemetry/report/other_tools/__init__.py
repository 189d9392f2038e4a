"""The requests of a run by the definitions, in the layout and with the names of other benchmark tools."""

from telemetry.report.other_tools.recompute import with_recomputed
from telemetry.report.other_tools.rendering import render_beside, render_json, render_text
from telemetry.report.other_tools.selection import Selection, select
from telemetry.report.other_tools.tool import Tool, parse_tool
from telemetry.report.other_tools.tools_table import (
    ToolColumn,
    render_tools,
    tool_column,
    tools_json,
    with_different_titles,
)

__all__ = [
    "Selection",
    "Tool",
    "ToolColumn",
    "parse_tool",
    "render_beside",
    "render_json",
    "render_text",
    "render_tools",
    "select",
    "tool_column",
    "tools_json",
    "with_different_titles",
    "with_recomputed",
]
