"""The report as one HTML file, and parts for other pages: the scaffold and percentile curves."""

from telemetry.report.html.curves import curves
from telemetry.report.html.document import render_html
from telemetry.report.html.page import page

__all__ = ["curves", "page", "render_html"]
