"""The texts of a run: losses and warnings, marks, and the output of its command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from telemetry.common import wording
from telemetry.common.formatting import number_of, printable
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.overview import marks
from telemetry.tui.model.scene import Scene
from telemetry.tui.model.visible_series import is_over
from telemetry.wire.snapshot import MetricsSnapshot

_LINE_CHARS: Final = 2_000
"""Characters kept of a line of output: wider than any screen."""
_TAB: Final = 8
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|\x1b[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b[0-~]"
)


def log(scene: Scene) -> tuple[Line, ...]:
    """Return connection problems, warnings, marks, and the command's output, newest line last."""
    snapshot = scene.snapshot
    trouble: list[Line] = [(Cell(printable(scene.trouble), "bad"),)] if scene.trouble else []
    parts: list[tuple[str, list[Line]]] = [("Connection", trouble)]
    if snapshot is not None:
        parts.append(
            ("Warnings", [*_losses(snapshot), *((Cell(printable(text), "warn"),) for text in snapshot.warnings)])
        )
        parts.append(("Marks, UTC", list(marks(scene))))
    parts.append((_command(snapshot), [(Cell(plain_text(line)),) for line in scene.output]))
    lines: list[Line] = []
    for title, body in parts:
        if body:
            lines += [()] if lines else []
            lines += [(Cell(title, "strong"),), *body]
    return tuple(lines) or ((Cell("the run has no messages" if is_over(scene) else "no messages yet", "dim"),),)


@lru_cache(maxsize=1024)  # twice the number of output lines that are kept
def plain_text(line: str) -> str:
    """Return a line of output without escape sequences, and with other control characters made visible."""
    text = line[: 4 * _LINE_CHARS].rstrip("\r\n")
    return printable(_ESCAPES.sub("", text).expandtabs(_TAB))[:_LINE_CHARS]


def _losses(snapshot: MetricsSnapshot) -> Iterator[Line]:
    """Yield each loss reason with its count, in the words of the report."""
    account = snapshot.accounting
    losses = (
        (account.dropped_by_producer, "event", "lost"),
        (account.dropped, "event", "lost"),
        (account.bad_frames, "frame", "refused"),
    )
    for reasons, what, became in losses:
        for reason, number in reasons.items():
            why = wording.REASON_WORDS.get(reason, "")
            yield (Cell(f"{number_of(number, what)} {became}, {printable(reason)}", "bad"), Cell(f"  {why}"))
    if account.missing:
        yield (Cell(f"{number_of(account.missing, 'event')} missing", "bad"), Cell("  sent, but never arrived"))
    if account.waiting:
        yield (
            Cell(f"{number_of(account.waiting, 'event')} waiting", "warn"),
            Cell("  no definition has arrived for their id"),
        )


def _command(snapshot: MetricsSnapshot | None) -> str:
    command = snapshot.command if snapshot else None
    return f"Output of {printable(shlex.join(command.argv))}, {wording.ending(command)}" if command else "Output"
