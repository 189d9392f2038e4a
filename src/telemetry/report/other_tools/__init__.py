"""The requests of a run by the definitions, in the layout and with the names of other benchmark tools."""

from telemetry.report.other_tools.rendering import render_beside, render_json, render_text
from telemetry.report.other_tools.selection import Selection, select
from telemetry.report.other_tools.tool import Tool, parse_tool

__all__ = ["Selection", "Tool", "parse_tool", "render_beside", "render_json", "render_text", "select"]
