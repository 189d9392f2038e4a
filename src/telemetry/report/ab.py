"""The result of `telemetry ab` as text, Markdown, JSON and JUnit, and its state as one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from telemetry.common import formatting
from telemetry.common.formatting import NOTHING, number_of, printable, printable_json
from telemetry.judge.ab.model import SIDES, AbFigure, AbResult, FailedRequests, FigureVerdict, Side, Verdict
from telemetry.report import markdown, text
from telemetry.report.table import DOT, ReportTable, Section, TableColumn, without_empty_columns, wrapped
from telemetry.report.text import INDENT
from telemetry.wire.units import TIME_NS

VERDICT_WORDS: Final[dict[Verdict, str]] = {
    "worse": "worse",
    "better": "better",
    "changed": "changed",
    "same": "no difference that matters",
    "cannot_tell": "can't tell",
}
_BOLD: Final = "\x1b[1m"
_RESET: Final = "\x1b[0m"
_COLORS: Final[dict[Verdict, str]] = {
    "worse": "\x1b[1;31m",
    "better": "\x1b[1;32m",
    "changed": "\x1b[1;33m",
    "cannot_tell": "\x1b[1;33m",
}


def conclusion(result: AbResult) -> str:
    """Return the verdict in one sentence."""
    if result.failures is not None:
        return _of_failures(result, result.failures)
    if result.settings.same:
        return _of_machine(result)
    verdict = result.verdict
    states = [state for state in result.deciding if state.verdict == verdict and state.pairs]
    if not states:
        return f"can't tell: {_why_no_pairs(result)}"
    state = max(states, key=lambda state: abs(state.difference or 0.0))
    after, about = result.settings.labels[1], f"{interval(state)}, {number_of(state.pairs, 'pair')}"
    if verdict == "cannot_tell":
        difference = formatting.signed_percent(state.difference)
        return f"can't tell: {state.figure} {difference} ({about}){_needed(state)}"
    if verdict == "same":
        return f"{after}: no difference that matters ({state.figure}; {about})"
    return f"{after} is {_difference(result, state)} ({state.figure}; {about})"


def facts(result: AbResult) -> Iterator[str]:
    """Describe how the verdict came about."""
    settings = result.settings
    before, after = settings.labels
    order = "at the same time, on random halves of the cores" if settings.duet else "in random order"
    sides = before if settings.same else f"{before} and {after}"
    void = len(result.pairs) - result.valid_pairs
    parts = [
        f"{number_of(result.valid_pairs, 'pair')} of {sides}, {order}",
        f"{void} void" if void else "",
        formatting.duration_s(result.seconds),
        f"seed {settings.seed}",
    ]
    yield DOT.join(part for part in parts if part)
    yield (
        f"smallest difference that matters: {formatting.percent(settings.min_effect)}{DOT}"
        f"at most {formatting.percent(settings.alpha)} of the verdicts are expected to be wrong"
    )


def figures_table(result: AbResult) -> ReportTable:
    """Return a row for each figure, those that decide first."""
    columns = [
        TableColumn("figure"),
        *(TableColumn(side, keep=3) for side in SIDES),
        TableColumn("difference", strong=True),
        TableColumn("interval", keep=1),
        TableColumn("pairs", keep=2),
        TableColumn("needed", keep=4),
        TableColumn("verdict", right=False),
    ]
    verdicts = {verdict.figure: verdict for verdict in result.verdicts}
    rows = [_row(result, figure, verdicts[figure.name]) for figure in ordered(result)]
    return without_empty_columns(ReportTable(columns, rows))


def ordered(result: AbResult) -> list[AbFigure]:
    """Return the figures, those that decide first."""
    return sorted(result.figures, key=lambda figure: not figure.decides)


def notes(result: AbResult) -> Iterator[str]:
    """Yield void pairs, figures beside those that decide, and why no more pairs were run."""
    reasons = Counter(pair.void for pair in result.pairs if pair.void)
    yield from (f"{number_of(number, 'pair')} void: {reason}" for reason, number in reasons.most_common())
    if result.failures is not None:
        yield "no figure has a verdict: a side that fails more requests is measured by other requests"
    beside = [figure.name for figure in result.figures if not figure.decides]
    yield from _without_ratio(result, result.verdicts)
    if beside:
        yield f"shown beside, without a part in the verdict: {', '.join(beside)}"
    endings = {
        "pairs": f"ended after {number_of(result.most_pairs, 'pair')} (--pairs)"
        if not result.settings.same
        else "",
        "budget": f"ended after {formatting.duration_s(result.budget_s)} (--budget)",
        "stopped": "stopped by a signal",
    }
    if ending := endings.get(result.ending):
        yield ending


def ab_text(result: AbResult, width: int = 100, color: bool = False) -> str:
    """Return lines that end with a newline. The first is the verdict."""
    paint = _COLORS.get(result.verdict, _BOLD) if color else ""
    head = wrapped(printable(conclusion(result)).replace(" %", "\N{NO-BREAK SPACE}%"), width, "", INDENT)
    lines = [f"{paint}{line}{_RESET}" if color else line for line in head]
    lines += [line for fact in facts(result) for line in wrapped(printable(fact), width, "", INDENT)]
    if result.figures:
        lines += ["", *text.render_section(Section("", table=figures_table(result)), width, color=color)]
    below = [line for note in notes(result) for line in wrapped(printable(note), width, "", INDENT)]
    return "\n".join([*lines, *(["", *below] if below else [])]) + "\n"


def ab_markdown(result: AbResult) -> str:
    """Return GitHub-flavoured Markdown, ending with a newline."""
    blocks = [f"**{markdown.escape(printable(conclusion(result)))}**"]
    blocks += [markdown.escape(printable(fact)) for fact in facts(result)]
    section = Section("", table=figures_table(result), notes=[printable(note) for note in notes(result)])
    return "\n\n".join([*blocks, *markdown.render_section(section)]) + "\n"


def ab_json(result: AbResult) -> str:
    """Return one strict JSON object, ending with a newline: the verdict, its sentence, the fields of `AbResult`."""
    document = {"verdict": result.verdict, "conclusion": conclusion(result), **msgspec.to_builtins(result)}
    return printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def ab_junit(result: AbResult) -> str:
    """Return JUnit XML with a case for each figure that decides, ending with a newline.

    A figure that is worse fails, one that can't be told is skipped. Without figures, there is one skipped case.
    Shares of failed requests that differ are a case too.
    """
    states = result.deciding or [FigureVerdict(figure="pairs")]
    if result.failures is not None:
        states = [FigureVerdict(figure="failed requests", verdict=result.failures.verdict), *states]
    suite = Element("testsuite", name="telemetry ab", tests=str(len(states)), time=f"{result.seconds:.3f}")
    for state in states:
        case = SubElement(suite, "testcase", classname="telemetry.ab", name=printable(state.figure), time="0")
        tags = {"worse": "failure", "cannot_tell": "skipped"}
        message = printable(conclusion(msgspec.structs.replace(result, verdicts=[state])))
        outcome = SubElement(case, tags.get(state.verdict, "system-out"))
        outcome.text = message
        if outcome.tag != "system-out":
            outcome.set("message", message)
    for tag, name in (("failure", "failures"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    root = Element("testsuites", {**suite.attrib, "name": "telemetry"})
    root.append(suite)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def progress(result: AbResult) -> str:
    """Return the state after the newest pair as one line."""
    newest = result.pairs[-1] if result.pairs else None
    parts = [f"pair {result.valid_pairs} of {result.most_pairs}"]
    if newest is not None and newest.void:
        parts.append(f"void: {newest.void}")
    if result.failures is not None:
        parts.append(f"failed requests: {_failed(result.failures)}")
    for state in result.deciding:
        verdict = "not yet" if state.verdict == "cannot_tell" else VERDICT_WORDS[state.verdict]
        difference = formatting.signed_percent(state.difference)
        parts.append(f"{state.figure} {difference} ({interval(state)}): {verdict}")
    needed = [state.needed for state in result.deciding if state.verdict == "cannot_tell"]
    counts = [number for number in needed if number is not None]
    if counts and len(counts) == len(needed) and not result.ending:
        more = max(min(max(counts), result.most_pairs) - result.valid_pairs, 1)
        left_s = more * result.seconds / len(result.pairs)
        parts.append(f"about {number_of(more, 'more pair')}, {formatting.duration_s(left_s)}")
    return printable(DOT.join(parts))


def interval(state: FigureVerdict) -> str:
    """Return the interval of a figure: `3.2 % to 5.0 %`; `no limits yet` until it has two ends."""
    if state.low is None or state.high is None:
        return "no limits yet"
    return f"{_short_percent(state.low)} to {_short_percent(state.high)}"


def _of_failures(result: AbResult, failures: FailedRequests) -> str:
    after, about = result.settings.labels[1], f"{_failed(failures)}, {number_of(result.valid_pairs, 'pair')}"
    if failures.verdict == "worse":
        return f"{after} fails more requests ({about}), so other figures can't be compared"
    return f"can't tell: the share of failed requests differs ({about})"


def _failed(failures: FailedRequests) -> str:
    return f"{formatting.percent(failures.before)} before, {formatting.percent(failures.after)} after"


def _of_machine(result: AbResult) -> str:
    """Return what pairs of the same command say about the machine."""
    false = [state for state in result.deciding if state.verdict in ("worse", "better", "changed")]
    if false:
        what = f"false alarm: the same command is {_difference(result, false[0])}"
        return f"{what} ({false[0].figure}; {interval(false[0])}, {number_of(false[0].pairs, 'pair')})"
    if not result.valid_pairs:
        return f"can't tell: {_why_no_pairs(result)}"
    effects = [
        f"{state.figure} of {formatting.percent(state.least_effect)}"
        for state in result.deciding
        if state.least_effect is not None
    ]
    pairs = number_of(result.valid_pairs, "pair")
    found = (
        f"they find differences in {', '.join(effects)} or more" if effects else "too few to find any difference"
    )
    return f"no false alarm in {pairs} of the same command; {found}"


def _why_no_pairs(result: AbResult) -> str:
    if reason := next(_without_ratio(result, result.deciding), ""):
        return reason
    void = [pair.void for pair in result.pairs if pair.void]
    return f"{number_of(len(void), 'void pair')}; the newest: {void[-1]}" if void else "no pair has ended"


def _without_ratio(result: AbResult, states: Sequence[FigureVerdict]) -> Iterator[str]:
    """Yield which figures have no ratio in any pair, and why."""
    runs = [run for pair in result.pairs if not pair.void for run in (pair.before, pair.after)]
    for name in [state.figure for state in states if runs and not state.pairs]:
        values = [run.values[name] for run in runs if name in run.values]
        if 0 in values:
            yield f"{name} is 0 in a run: no ratio"
        elif any(value < 0 for value in values):
            yield f"{name} is below 0 in a run: no ratio"
        else:
            yield f"{name} has no value in both runs of a pair"


def _needed(state: FigureVerdict) -> str:
    return "" if state.needed is None else f"; about {_about(state.needed)} pairs would tell"


def _about(number: int) -> str:
    return formatting.count(float(f"{number:.2g}"))


def _difference(result: AbResult, state: FigureVerdict) -> str:
    """Return the size of a difference with its direction: `4.1 % slower`, `12 % higher`."""
    figure = next(figure for figure in result.figures if figure.name == state.figure)
    difference = state.difference or 0.0
    is_time = figure.unit in TIME_NS and figure.better == "lower"
    words = ("slower", "faster") if is_time else ("higher", "lower")
    return f"{formatting.percent(abs(difference))} {words[difference < 0]}"


def _row(result: AbResult, figure: AbFigure, state: FigureVerdict) -> list[str]:
    sides = [_typical(result, figure, side) for side in SIDES]
    return [
        printable(figure.name),
        *sides,
        formatting.signed_percent(state.difference),
        interval(state),
        str(state.pairs),
        NOTHING if state.needed is None else _about(state.needed),
        VERDICT_WORDS[state.verdict],
    ]


def _typical(result: AbResult, figure: AbFigure, side: Side) -> str:
    """Return the median of a side."""
    runs = [pair.before if side == "before" else pair.after for pair in result.pairs if not pair.void]
    values = [run.values[figure.name] for run in runs if figure.name in run.values]
    return formatting.quantity(median(values), figure.unit) if values else NOTHING


def _short_percent(fraction: float) -> str:
    """Return a percentage with two significant digits, with a sign only below 0."""
    return formatting.percent(float(f"{fraction:.2g}"))
