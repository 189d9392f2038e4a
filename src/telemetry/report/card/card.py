"""The facts of a card: figures, origin and file digests of an ended run, as canonical JSON.

The JSON is one line of ASCII with sorted keys. Its SHA-256 is the digest of the card. The same run always gives the
same line.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.distribution import version
from telemetry.common.files import open_reader
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.history.headlines import Figure
from telemetry.history.run import RecordedRun, open_run
from telemetry.report import brief
from telemetry.report.content import gates_words, headlines
from telemetry.report.gates import tally
from telemetry.report.series import between, bounds_of, confidence
from telemetry.report.table import DOT, cut
from telemetry.store.append_file import describe
from telemetry.store.run_directory import FINAL, MANIFEST, Manifest, RunDirectory
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.gates import worst
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

LAYOUT: Final = 1
"""Version of the facts and of the layout. A card is checked by the layout that it was made with."""
FIGURES: Final = 8
"""Largest number of figures."""
PARAMS: Final = 6
"""Largest number of parameters. The others are counted."""
_FOLDERS: Final = ("history", "journal", "records", "requests")
_FILES: Final = (FINAL, MANIFEST, "gates.json", "git.diff", "imported.json", "stragglers.json")
_PATIENCE_S: Final = 15.0
"""Longest wait for an aggregator that has written its result and still writes its history."""
_PERCENTILE: Final = re.compile(r"\bp(\d+(?:\.\d+)?)\b")
_MACHINE: Final = {
    "machine.cpu": "",
    "machine.cpus": "cores",
    "machine.memory": "memory",
    "machine.os": "",
    "machine.kernel": "",
    "machine.nvidia_driver": "NVIDIA driver",
}
"""Parameter → its title on the card."""
_GIT: Final = {"git.commit": "commit", "git.branch": "branch", "git.changed_files": "changed files"}
_ESCAPES: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
_VALUE_COLUMNS: Final = 48
PERCENTILES: Final = "percentiles"


class Difference(TelemetryError):
    """A card, a file or a figure differs from what was sealed."""


class CardFigure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A headline figure, as text and as a number."""

    title: str
    text: str
    note: str
    bounds: str
    """Confidence bounds as text; empty without any."""
    low: float | None
    high: float | None
    value: float | None
    unit: str
    health: str
    """`plain`, `good`, `warn` or `bad`."""


class SealedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the run directory."""

    path: str
    size: int
    sha256: str


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All facts of a card."""

    layout: int
    sealed_with: str
    """Version of telemetry that made the card."""
    run_id: str
    name: str
    completeness: str
    headline: str
    """First line of the report."""
    alarms: list[str]
    """Lines about a failed command, a run without data, and failed gates."""
    cautions: list[str]
    """Outcomes of gates that are inconclusive, and concerns of the report."""
    confidence: str
    """Confidence of all bounds, such as `95 %`."""
    subject: str
    """Name that titles of figures may begin with, such as a kind of request."""
    figures: list[CardFigure]
    facts: list[tuple[str, list[tuple[str, str]]]]
    """Facts about the origin of the figures, as label and (name, value) pairs."""
    files: list[SealedFile]

    def canonical(self) -> str:
        """Return the facts as one line of JSON, which HTML comments and XML can contain as it is."""
        facts = msgspec.to_builtins(self)
        return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)

    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    @property
    def tone(self) -> str:
        """Colour of the verdict: good, warn or bad."""
        if self.alarms or self.completeness.startswith("interrupted"):
            return "bad"
        return "good" if self.completeness.startswith("complete") else "warn"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the facts below the figures, as label and text."""
        for label, values in self.facts:
            most = _VALUE_COLUMNS if len(values) > 1 else None
            yield label, DOT.join(f"{name} {cut(value, most) if most else value}".strip() for name, value in values)
        size = formatting.size(sum(file.size for file in self.files))
        yield "sealed", f"{number_of(len(self.files), 'file')}{DOT}{size}{DOT}check: telemetry verify CARD RUN"


def ended(directory: RunDirectory) -> Report:
    """Return the result of an ended run with all that its files add.

    Waits for an aggregator that is about to end. Raises RunDirectoryError if the run has not ended, or if its
    directory lacks the journal or the result.
    """
    if directory.final.is_file() and not directory.await_release(_PATIENCE_S):
        raise RunDirectoryError(f"the run in {directory.path} is still ending", hint="try again in a moment")
    run = open_run(directory.path, directory.path.parent)
    if run.result.snapshot.state not in TERMINAL or not directory.final.is_file():
        raise RunDirectoryError(
            f"{directory.path} has no {FINAL} of an ended run", hint="a card is for a run that has ended"
        )
    if not any(directory.journal.glob("*.seg")):
        raise RunDirectoryError(
            f"{directory.path} has no journal, so its figures can't be recomputed",
            hint="runs write one unless journal.enabled is false; of a merged run, seal its sources",
        )
    here = replace(run.result, snapshot=replace(run.result.snapshot, directory=str(directory.path)))
    return RecordedRun(here, directory).report()


def card_of(report: Report, directory: RunDirectory, files: Sequence[SealedFile]) -> Card:
    """Return the card of a run: the headline that its report shows first, and where the figures come from."""
    head = next(iter(headlines(report)), None)
    outcome, gates = worst(report.gates), gates_words(report)
    failed, unclear = ([gates] if outcome == which else [] for which in ("fail", "inconclusive"))
    return Card(
        layout=LAYOUT,
        sealed_with=version(),
        run_id=report.snapshot.run_id,
        name=printable(report.snapshot.name),
        completeness=report.outcome,
        headline=printable(report.headline()),
        alarms=[printable(line) for line in (*brief.alarms(report), *failed)],
        cautions=[printable(line) for line in (*unclear, *brief.concerns(report))],
        confidence=confidence(report) if report.bounds else "",
        subject=head.subject if head else "",
        figures=[_figure(report, figure) for figure in head.figures[:FIGURES]] if head else [],
        facts=[(label, values) for label, values in _facts(report, directory.read_manifest()) if values],
        files=list(files),
    )


def _facts(report: Report, manifest: Manifest) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    snapshot = report.snapshot
    params = brief.params(snapshot.params)
    own = [(name, value) for name, value in params.items() if not is_of_surroundings(name)]
    more = [("", f"{len(own) - PARAMS:,} more")] if len(own) > PARAMS else []
    yield "command", [("", printable(shlex.join(snapshot.command.argv)))] if snapshot.command else []
    if (origin := report.imported) is not None:
        made_by = {"": origin.tool, "version": origin.version, "file": PurePath(origin.file).name}
        yield "imported", [(name, printable(value)) for name, value in made_by.items() if value]
        yield "its sha256", [("", origin.sha256)]
    yield "parameters", [*own[:PARAMS], *more]
    yield "code", _chosen(params, _GIT) or [("", "not recorded")]
    python = params.get("python.version", manifest.python)
    own_machine, own_python = [("", printable(manifest.platform))], [("Python", printable(python))]
    if origin is not None:  # the manifest describes the machine of the import
        own_machine, own_python = [("", "not recorded")], []
    yield "machine", _chosen(params, _MACHINE) or own_machine
    yield "versions", [("telemetry", printable(manifest.telemetry)), *own_python]
    started, took = formatting.timestamp(snapshot.started_ns), formatting.duration_s(snapshot.elapsed_s)
    yield "run", [("", snapshot.run_id), ("started", started), ("took", took)]
    exact = "exact, from all values" if snapshot.exact else f"not exact: {printable(snapshot.exact_reason)}"
    yield PERCENTILES, [("", exact)]
    yield "gates", [("", tally(report.gates))] if report.gates else []


def _chosen(params: Mapping[str, str], names: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(title, params[name]) for name, title in names.items() if name in params]


def _figure(report: Report, figure: Figure) -> CardFigure:
    bounds, low, high = _bounds(report, figure)
    return CardFigure(
        title=printable(figure.title),
        text=printable(figure.text),
        note=printable(figure.note),
        bounds=bounds,
        low=_finite(low),
        high=_finite(high),
        value=_finite(figure.value),
        unit=printable(figure.unit),
        health=figure.health,
    )


def _bounds(report: Report, figure: Figure) -> tuple[str, float | None, float | None]:
    """Return the bounds of a percentile or of the attainment; nothing if they are unknown or not of one series."""
    if figure.title == "attainment":
        for of in report.requests:
            if of.attainment == figure.value and of.attainment_low is not None and of.attainment_high is not None:
                low, high = of.attainment_low, of.attainment_high
                return f"{low * 100:.1f}–{high * 100:.1f} %", low, high
    key = next(iter(reversed(_PERCENTILE.findall(figure.title))), None)
    fitting = [
        (between(bounds, stat.unit), bounds.low, bounds.high)
        for stat in report.snapshot.series
        if stat.unit == figure.unit and key is not None and stat.percentiles.get(key) == figure.value
        if (bounds := bounds_of(report, stat).get(key)) is not None
    ]
    if len(set(fitting)) != 1 or fitting[0][0] == formatting.NOTHING:
        return "", None, None
    return fitting[0]


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


# --- files ---------------------------------------------------------------------------------------


def sealed_files(directory: RunDirectory) -> list[SealedFile]:
    """Return the digests of all files that a card seals. Blocks. Raises RunDirectoryError."""
    return [_digested(directory, name) for name in _names(directory)]


def check_files(directory: RunDirectory, files: Sequence[SealedFile]) -> None:
    """Raise Difference for the first file that is missing, additional or changed. Blocks on the disk."""
    sealed, present = {file.path: file for file in files}, _names(directory)
    for name in sorted({*sealed, *present}):
        if name not in present:
            raise Difference(f"{name} is missing from the run directory")
        if name not in sealed:
            raise Difference(f"{name} is not among the sealed files")
        now = _digested(directory, name)
        if now != sealed[name]:
            before, size = sealed[name], f"{number_of(now.size, 'byte')}"
            change = f"it has {size}, sealed were {before.size:,}" if now.size != before.size else "same size"
            raise Difference(f"{name} was changed ({change}): sha256 {now.sha256}, sealed was {before.sha256}")


def _names(directory: RunDirectory) -> list[str]:
    """Return the sorted names of the files to seal, without unfinished ones of atomic writes."""
    names = [name for name in _FILES if (directory.path / name).exists()]
    try:
        for folder in _FOLDERS:
            if (directory.path / folder).exists():
                names += [f"{folder}/{path.name}" for path in (directory.path / folder).iterdir()]
    except OSError as error:
        raise RunDirectoryError(f"can't read {directory.path}: {describe(error)}") from error
    return sorted(name for name in names if not name.endswith(".tmp"))


def _digested(directory: RunDirectory, name: str) -> SealedFile:
    path = directory.path / name
    try:
        with open_reader(path, depth=name.count("/") + 1) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return SealedFile(path=name, size=file.tell(), sha256=digest)
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error


# --- comparison ----------------------------------------------------------------------------------


def check_facts(card: Card, recomputed: Card, tolerance: float) -> None:
    """Raise Difference for the first figure, or else the first other fact, that differs from the recomputed card.

    `tolerance` is the largest relative difference of a figure. Above 0, its text and bounds may differ too.
    """
    by_version = "" if card.sealed_with == version() else f"; the card is by telemetry {card.sealed_with}"
    for index in range(max(len(card.figures), len(recomputed.figures))):
        sides = [of.figures[index] if index < len(of.figures) else None for of in (card, recomputed)]
        if not _alike(sides[0], sides[1], tolerance):
            title = next(side.title for side in sides if side)
            texts = [_figure_words(side) for side in sides]
            raise Difference(f"{title}: the card has {texts[0]}, the journal gives {texts[1]}{by_version}")
    stated, own = (_others(of, exact=not tolerance) for of in (card, recomputed))
    for name in {**stated, **own}:
        if stated.get(name) != own.get(name):
            raise Difference(f"{name}: the card has {stated.get(name)}, the run has {own.get(name)}{by_version}")


def _others(card: Card, *, exact: bool) -> dict[str, object]:
    """Return all facts but figures and files; without `exact`, none about exactness either."""
    fields = ("run_id", "name", "completeness", "headline", "alarms", "cautions", "confidence", "subject")
    facts = dict(card.facts)
    if not exact:
        facts.pop(PERCENTILES, None)
    return {**{field: getattr(card, field) for field in fields}, **facts}


def _alike(stated: CardFigure | None, own: CardFigure | None, tolerance: float) -> bool:
    if stated is None or own is None or not tolerance or stated.value is None or own.value is None:
        return stated == own
    difference = abs(stated.value - own.value)
    return stated.title == own.title and difference <= tolerance * max(abs(stated.value), abs(own.value))


def _figure_words(figure: CardFigure | None) -> str:
    if figure is None:
        return "no such figure"
    bounds = f", bounds {figure.bounds}" if figure.bounds else ""
    number = "" if figure.value is None else f" ({figure.value!r} {figure.unit})"
    return f"{figure.text}{number}{bounds}"
