"""`telemetry completion SHELL`: a script for bash, zsh or fish, which asks this command what a word may become."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.cli import console, find_run
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.wire.snapshot import MetricsSnapshot

_BASH: Final = r"""_telemetry() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
        case $word in *[:=]) compopt -o nospace 2>/dev/null ;; esac
    done < <("${1/#\~/$HOME}" completion bash --line "${COMP_LINE:0:COMP_POINT}" --word="$2" 2>/dev/null)
}
complete -o default -F _telemetry telemetry
"""
_ZSH: Final = r"""#compdef telemetry
_telemetry() {
    local word meaning
    local -a whole whole_shown open open_shown
    while IFS=$'\t' read -r word meaning; do
        if [[ $word == *[:=] ]]; then
            open+=("$word") open_shown+=("$word${meaning:+  -- $meaning}")
        else
            whole+=("$word") whole_shown+=("$word${meaning:+  -- $meaning}")
        fi
    done < <(${(Q)~words[1]} completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)
    if (( $#whole + $#open )); then
        (( $#whole )) && compadd -l -d whole_shown -a whole
        (( $#open )) && compadd -S '' -l -d open_shown -a open
    else
        _files
    fi
}
if [[ ${funcstack[1]-} == _telemetry ]]; then _telemetry "$@"; else compdef _telemetry telemetry; fi
"""
_FISH: Final = r"""function __telemetry_words
    set -l program (commandline -opc)[1]
    set -l found ($program completion fish --line (commandline -cp | string collect) 2>/dev/null)
    if count $found >/dev/null
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c telemetry -f -a '(__telemetry_words)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_INSTALL: Final = {
    "bash": "add to ~/.bashrc: source <(telemetry completion bash)",
    "zsh": "add to ~/.zshrc, after compinit: source <(telemetry completion zsh)",
    "fish": "run: telemetry completion fish > ~/.config/fish/completions/telemetry.fish",
}
_MANY: Final = ("*", "+")

Given = Mapping[str, Sequence[str]]
"""Destination of an argument → its values so far."""


class Candidate(NamedTuple):
    """A word that the last one may become."""

    word: str
    meaning: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=tuple(_SCRIPTS), nargs="?", help="shell to print the script for (default: that of SHELL)"
    )
    parser.add_argument("--line", help=argparse.SUPPRESS)  # command line up to the cursor: complete its last word
    parser.add_argument("--word", default="", help=argparse.SUPPRESS)  # what bash would replace


def run(args: argparse.Namespace) -> int:
    shell = args.shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in _SCRIPTS:
        raise UsageError("which shell is the script for?", hint="; ".join(_INSTALL.values()))
    if args.line is None:
        console.write(_SCRIPTS[shell])
        if sys.stdout.isatty():
            console.say(_INSTALL[shell])
        return Exit.OK
    tokens, is_quoted = split(args.line)
    choices: list[Candidate] = []
    with suppress(TelemetryError, OSError):
        choices = candidates(tokens)
    if shell == "bash":
        lines = [_for_bash(choice.word, tokens[-1], args.word, is_quoted=is_quoted) for choice in choices]
    else:
        lines = [f"{choice.word}\t{' '.join(choice.meaning.split())}".rstrip("\t") for choice in choices]
    console.write("".join(f"{line}\n" for line in dict.fromkeys(lines)))
    return Exit.OK


def split(line: str) -> tuple[list[str], bool]:
    """Return the words of a command line after the program, and whether the last one is in an open quote.

    The last word is empty behind a space.
    """
    tokens: list[str] = []
    closing = ""
    for closing in ("", "\\", "'", '"'):
        with suppress(ValueError):
            tokens = shlex.split(line + closing)
            break
    if not closing and line[-1:].isspace():
        tokens.append("")
    while tokens and "=" in tokens[0] and not tokens[0].startswith("-"):  # variables before the program
        del tokens[0]
    return tokens[1:] or [""], closing in ("'", '"')


def candidates(tokens: Sequence[str]) -> list[Candidate]:
    """Return what the last word may become. Reads the folder of runs, and for a gate the run.

    Empty if that is the name of a file or a command, or unknown. Raises TelemetryError.
    """
    from telemetry.cli.main import COMMANDS, build_parser

    *before, current = tokens
    if before[:1] == ["help"]:
        before = before[1:]
    line = _CommandLine(build_parser(only=next((word for word in before if word in COMMANDS), "")))
    for word in before:
        line.take(word)
    return [candidate for candidate in line.candidates(current) if candidate.word.startswith(current)]


class _CommandLine:
    """The place in a command line that its words so far lead to."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._given: dict[str, list[str]] = {}
        self._option: argparse.Action | None = None
        """An option whose value comes next."""
        self._ended = False
        """True if the rest is a command of the user, or makes no sense."""
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._options = parser._option_string_actions
        self._positionals = [action for action in parser._actions if not action.option_strings]

    def take(self, word: str) -> None:
        """Go on by a word."""
        if self._ended or word == "--":
            self._ended = True
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            action = self._options.get(name)
            self._option = action if action is not None and action.nargs != 0 and not equals else None
            if action is not None and equals:
                self._given.setdefault(action.dest, []).append(value)
        elif self._option is not None:
            self._given.setdefault(self._option.dest, []).append(word)
            self._option = self._option if self._option.nargs in _MANY else None
        elif self._positionals:
            self._take_positional(self._positionals[0], word)

    def _take_positional(self, action: argparse.Action, word: str) -> None:
        if isinstance(action, argparse._SubParsersAction):
            if word in action.choices:
                self._enter(action.choices[word])
            else:
                self._ended = True
            return
        self._ended = action.nargs == argparse.REMAINDER
        self._given.setdefault(action.dest, []).append(word)
        if action.nargs not in _MANY:
            del self._positionals[0]

    def candidates(self, current: str) -> Iterator[Candidate]:
        """Yield what the next word may be, given its beginning. Some may not begin so."""
        if self._ended:
            return
        is_value = self._option is not None and self._option.nargs not in _MANY
        if current.startswith("-") and not is_value:
            name, equals, value = current.partition("=")
            if equals and name in self._options:
                for candidate in self._values(self._options[name], value):
                    yield Candidate(f"{name}={candidate.word}", candidate.meaning)
            else:
                yield from self._option_strings()
        elif self._option is not None:
            yield from self._values(self._option, current)
        elif self._positionals:
            yield from self._values(self._positionals[0], current)

    def _option_strings(self) -> Iterator[Candidate]:
        formatter = self._parser._get_formatter()
        for action in self._parser._actions:
            if action.option_strings and action.help != argparse.SUPPRESS:
                yield Candidate(action.option_strings[-1], formatter._expand_help(action))

    def _values(self, action: argparse.Action, current: str) -> Iterator[Candidate]:
        if isinstance(action, argparse._SubParsersAction):
            yield from (Candidate(child.dest, child.help or "") for child in action._choices_actions)
        elif action.choices:
            yield from (Candidate(str(choice)) for choice in action.choices)
        elif source := _SOURCES.get(action.dest) or _SOURCES.get(str(action.metavar)):
            yield from source(current, self._given)


def _for_bash(word: str, current: str, replaced: str, *, is_quoted: bool) -> str:
    """Return what bash puts in place of `replaced`, the end of the current word behind `=`, `:` or a quote."""
    replaced = replaced.strip("=:")
    rest = word[len(current) - len(replaced) :] if current.endswith(replaced) else word
    return rest if is_quoted else shlex.quote(rest)


# --- what may be given for an argument -----------------------------------------------------------


def _runs(current: str, given: Given) -> Iterator[Candidate]:
    """Yield `latest`, the names of runs, and ids that begin like the word."""
    from telemetry.common.formatting import number_of, timestamp
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import LATEST, list_runs, slug
    from telemetry.transport import runtime_directory

    if "/" in current:
        return
    runs = list_runs(_root(given))
    if runs:
        yield Candidate(LATEST, f"the newest run: {slug(runs[0].name)}")
    for live in list_live(runtime_directory()):
        if live.alive:
            yield Candidate(live.name, "live")
    by_name: dict[str, int] = {}
    for run in runs:
        name = slug(run.name)
        by_name[name] = by_name.get(name, 0) + 1
    yield from (Candidate(name, number_of(number, "run")) for name, number in by_name.items())
    if current:
        yield from (Candidate(run.run_id, f"{slug(run.name)}, {timestamp(run.started_ns)}") for run in runs)


def _gates(_current: str, given: Given) -> Iterator[Candidate]:
    """Yield figures of the run, or of the newest run for a gate of `telemetry run`."""
    from telemetry.judge.gates.functions import FACTS, FUNCTIONS, WORD_FACTS
    from telemetry.judge.gates.tree import GateMetric

    snapshot = _snapshot(given)
    names = {
        "series": [GateMetric(stat.name, tuple(sorted(stat.labels.items()))) for stat in snapshot.series],
        "step": [GateMetric(name) for axis in snapshot.axes for name in axis.values],
        "counter": [GateMetric(stat.name, tuple(sorted(stat.labels.items()))) for stat in snapshot.counters],
        "gauge": [GateMetric(stat.name, tuple(sorted(stat.labels.items()))) for stat in snapshot.gauges],
    }
    for kind, metrics in names.items():
        functions = ["p50", "p99"] if kind == "series" else []
        functions += [name for name, function in FUNCTIONS.items() if kind in function.suggested_for]
        for metric in metrics:
            yield from (Candidate(f"{function}({metric})", f"of a {kind}") for function in functions)
    yield from (Candidate(name, meaning) for name, (_, meaning) in FACTS.items())
    yield from (Candidate(f"{name} == {values[0]}") for name, values in WORD_FACTS.items())


def _series(_current: str, given: Given) -> Iterator[Candidate]:
    from telemetry.common.wording import instrument

    for stat in _snapshot(given).series:
        yield Candidate(instrument(stat.name, stat.labels), stat.unit)


def _backends(current: str, _given: Given) -> Iterator[Candidate]:
    """Yield the names of backends, and behind a name its options."""
    from telemetry.backends.choice import known, load, missing_modules
    from telemetry.config.plugins.backends import BUILT_IN

    if ":" in current:
        yield from _options(current, BUILT_IN, load)
        return
    for name in known():
        modules = missing_modules(name) if name in BUILT_IN else []
        yield Candidate(name, f"needs {' and '.join(modules)}" if modules else "")


def _collectors(current: str, _given: Given) -> Iterator[Candidate]:
    from telemetry.collectors.registry import BUILT_IN, load

    yield from _options(current, BUILT_IN, load) if ":" in current else _plugins("collectors")


def _options(current: str, built_in: Container[str], load: Callable[[str], Any]) -> Iterator[Candidate]:
    """Yield the options behind the name of a built-in plug-in: importing others may take long."""
    from telemetry.config.plugins.choice import options_of

    kind, _, rest = current.partition(":")
    before = f"{kind}:{rest[: rest.rfind(',') + 1]}"
    for option in options_of(load(kind).Options) if kind in built_in else ():
        yield Candidate(f"{before}{option.name}=", option.type)


def _feeds(_current: str, _given: Given) -> Iterator[Candidate]:
    yield from _plugins("feeds")


def _captures(current: str, _given: Given) -> Iterator[Candidate]:
    """Yield the names of captures, also behind a comma."""
    from telemetry.integrations.capture.captures import known_captures

    before = current[: current.rfind(",") + 1]
    yield from (Candidate(f"{before}{name}") for name in known_captures())


def _plugins(*groups: str) -> Iterator[Candidate]:
    from telemetry.cli.plugin_inventory.facts import built_in
    from telemetry.config.plugins.entry_points import plugins

    for group in groups:
        yield from (Candidate(name, group) for name in plugins(group, built_in(group)))


def _all_plugins(_current: str, _given: Given) -> Iterator[Candidate]:
    from telemetry.config.plugins.entry_points import GROUPS

    yield from _plugins(*GROUPS)


def _tools(current: str, _given: Given) -> Iterator[Candidate]:
    """Yield the benchmark tools of `report --as`, and behind `@` their versions."""
    from telemetry.report.other_tools.tool import TOOLS

    versioned = "@" in current
    yield from (Candidate(f"{tool.name}@{tool.version}" if versioned else tool.name, tool.title) for tool in TOOLS)


def _limits(current: str, _given: Given) -> Iterator[Candidate]:
    """Yield the keys of limits for requests, also behind a kind of request."""
    from telemetry.common import slo

    before = current[: max(current.rfind("="), current.rfind(",")) + 1]
    yield from (Candidate(f"{before}{key}:") for key in (*slo.KEYS, slo.TPS))


def _stand_ins(_current: str, _given: Given) -> Iterator[Candidate]:
    from telemetry.compat.stand_ins import STAND_INS

    yield from map(Candidate, STAND_INS)


def _personal(_current: str, _given: Given) -> Iterator[Candidate]:
    yield Candidate("personal", "e-mail addresses and card numbers")


def _calibrations(_current: str, given: Given) -> Iterator[Candidate]:
    from telemetry.store.calibrations import list_calibrations

    yield from map(Candidate, list_calibrations(_root(given)))


def _root(given: Given) -> Path:
    return find_run.root_directory(given["dir"][-1] if given.get("dir") else None)


def _snapshot(given: Given) -> MetricsSnapshot:
    """Return the snapshot of the run in the command line, by default that of the newest run."""
    spec = (given.get("target") or given.get("before") or [find_run.LATEST])[-1]
    target = find_run.find(argparse.Namespace(target=spec, dir=str(_root(given))))
    return find_run.report_of(target).snapshot


_SOURCES: Final[Mapping[Any, Callable[[str, Given], Iterator[Candidate]]]] = {
    **dict.fromkeys(("RUN", "A", "B"), _runs),
    "EXPR": _gates,
    "to": _backends,
    **dict.fromkeys(("series", "GLOB"), _series),
    "collect": _collectors,
    **dict.fromkeys(("feed", "feeds"), _feeds),
    "plugins": _all_plugins,
    "tool": _tools,
    "goodput": _limits,
    "stand_ins": _stand_ins,
    "redact_personal": _personal,
    "captures": _captures,
    "calibration": _calibrations,
}
"""Destination or metavar of an argument → its candidates."""
