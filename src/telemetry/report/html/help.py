"""A `?` behind a title: it shows an explanation while it has the focus or the pointer, without scripts."""

from __future__ import annotations

from html import escape

from telemetry.report.glossary import explanation


def question(title: str) -> str:
    """Return a `?` with the explanation of the terms in a title; empty if it has none."""
    text = escape(explanation(title))
    if not text:
        return ""
    return (
        f'<span class="help"><button type="button" aria-label="{text}">?</button>'
        f'<span aria-hidden="true">{text}</span></span>'
    )
