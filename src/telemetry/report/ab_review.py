"""The result of `telemetry ab` where a change is reviewed: a short summary, its picture, annotations."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, Literal
from urllib.parse import quote

from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.formatting import columns, number_of, printable
from telemetry.judge.ab.model import AbResult, FigureVerdict, Verdict
from telemetry.report import ab, markdown
from telemetry.report.ab_page import forest
from telemetry.report.table import ReportTable, Section, cut

Service = Literal["github", "gitlab"]

_MOST_FIGURES: Final = 5
_MOST_NOTES: Final = 3
_MOST_ERRORS: Final = 10
"""GitHub shows no more errors of one step."""
_NAME_COLUMNS: Final = 24
_CELLS: Final = 49
_LEVELS: Final[dict[Verdict, str]] = {"worse": "error", "changed": "warning", "cannot_tell": "warning"}
_SECTION: Final = "telemetry_ab"
_STYLE: Final = (
    "svg { background: #ffffff; font-family: sans-serif; } .axis { stroke: #56606f; }"
    " .mark { stroke: #6b7685; stroke-dasharray: 2 3; } .tick { fill: #56606f; font-size: 12px; }"
    " .bad-key { --own: #b3261e; } .good-key { --own: #14713a; } .warn-key { --own: #8a4b00; }"
    " .calm-key { --own: #0b5cad; } .error-bar { stroke: var(--own); stroke-width: 1.5; }"
    " .spot { fill: var(--own); }"
)


def ab_summary(result: AbResult, picture: str = "") -> str:
    """Return Markdown of at most 30 lines, with the intervals drawn as text.

    GitHub removes SVG elements and images of `data:` addresses from Markdown. So a picture can only be linked:
    `picture` is its file or address.
    """
    table = ab.figures_table(result)
    blocks = [f"**{markdown.escape(printable(ab.conclusion(result)))}**"]
    blocks += [markdown.escape(printable(fact)) for fact in ab.facts(result)]
    notes = [printable(note) for note in ab.notes(result)][:_MOST_NOTES]
    if (more := len(table.rows) - _MOST_FIGURES) > 0:
        notes.append(f"{number_of(more, 'more figure')} in the whole result")
    shown = ReportTable(table.columns, table.rows[:_MOST_FIGURES])
    if result.figures:
        blocks.append("\n".join(["```", *text_picture(result), "```"]))
    blocks += markdown.render_section(Section("", table=shown, notes=notes))
    if picture:
        blocks.append(f"[picture of the intervals]({quote(picture, safe=':/')})")
    return "\n\n".join(blocks) + "\n"


def text_picture(result: AbResult) -> list[str]:
    """Return a line for the interval of each of the first figures, and the scale below them."""
    rows = _rows(result)[:_MOST_FIGURES]
    least = result.settings.min_effect
    ends = [value for row in rows for value in (row.low, row.high, row.difference) if value is not None]
    low, high = min([-least, *ends]), max([least, *ends, 0.001])

    def cell(value: float) -> int:
        return round((value - low) / (high - low) * (_CELLS - 1))

    lines = []
    for row in rows:
        cells = [" "] * _CELLS
        cells[cell(-least) : cell(least) + 1] = "·" * (cell(least) - cell(-least) + 1)
        cells[cell(0)] = "│"
        if row.difference is not None:
            start, end = cell(low if row.low is None else row.low), cell(high if row.high is None else row.high)
            cells[start : end + 1] = "━" * (end - start + 1)
            cells[cell(row.difference)] = "●"
        name = cut(printable(row.figure), _NAME_COLUMNS).replace("`", "'")
        padding = " " * (_NAME_COLUMNS - columns(name))
        lines.append(f"{name}{padding} {''.join(cells)}".rstrip())
    ticks = [formatting.signed_percent(float(f"{end:.2g}")) for end in (low, high)]
    scale = ticks[0] + ticks[1].rjust(_CELLS - len(ticks[0]))
    if not scale[max(cell(0) - 1, 0) : cell(0) + 2].strip():
        scale = f"{scale[: cell(0)]}0{scale[cell(0) + 1 :]}"
    return [*lines, " " * (_NAME_COLUMNS + 1) + scale]


def ab_svg(result: AbResult) -> str:
    """Return the intervals as an SVG file."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    title = f"<style>{_STYLE}</style><title>{escape(printable(ab.conclusion(result)))}</title>"
    opening, _, rest = forest(result).replace("<svg ", head, 1).partition(">")
    return f"{opening}>{title}{rest}\n"


def ab_annotations(result: AbResult, service: Service, now_s: float) -> str:
    """Return the text in a section of a job's log whose title is the verdict, and the annotations of the service.

    GitHub has workflow commands: an error for each figure that is worse, or one line with the verdict. GitLab has
    no such lines. There, only a section that is worse is open.
    """
    if service == "github":
        group = f"::group::{_data(ab.conclusion(result))}\n{ab.ab_text(result)}::endgroup::\n"
        return group + "".join(f"{line}\n" for line in _commands(result))
    closed = "" if result.verdict == "worse" else "[collapsed=true]"
    begin = f"\x1b[0Ksection_start:{now_s:.0f}:{_SECTION}{closed}\r\x1b[0K{printable(ab.conclusion(result))}"
    return f"{begin}\n{ab.ab_text(result)}\x1b[0Ksection_end:{now_s:.0f}:{_SECTION}\r\x1b[0K\n"


def _commands(result: AbResult) -> Sequence[str]:
    worse = [state for state in result.deciding if state.verdict == "worse"]
    if result.failures is not None or result.settings.same or not worse:
        return [_command(_LEVELS.get(result.verdict, "notice"), ab.conclusion(result))]
    each = [replace(result, verdicts=[state]) for state in worse[:_MOST_ERRORS]]
    return [_command("error", ab.conclusion(alone)) for alone in each]


def _command(level: str, message: str) -> str:
    return f"::{level} title=telemetry ab::{_data(message)}"


def _data(message: str) -> str:
    """Return a message with the escapes of a workflow command; line breaks are not printable."""
    return printable(message).replace("%", "%25")


def _rows(result: AbResult) -> list[FigureVerdict]:
    states = {state.figure: state for state in result.verdicts}
    return [states[figure.name] for figure in ab.ordered(result)]
