"""`telemetry ab -- A… -- B…`: run two commands by turns until it is known which is faster."""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.cli.commands.compare import fraction
from telemetry.cli.commands.run import name_of
from telemetry.cli.outputs import Output, add_output_arguments, make_folder, make_folders, outputs, write
from telemetry.common.formatting import columns, number_of, printable, without_middle
from telemetry.errors import UsageError
from telemetry.report import formats_of, render_as
from telemetry.wire.codec import carriable
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.cli.ab.session import Commands
    from telemetry.judge.ab.model import AbResult
    from telemetry.judge.sweeps.params import Parameter
    from telemetry.redaction import Redactor

FORMATS: Final = formats_of("ab")
STEM: Final = "ab"
_PAIRS: Final = 60
_MOST_PAIRS: Final = 1_000
_MOST_WARMUP: Final = 100
_LABEL_COLUMNS: Final = 40
_SEEDS: Final = 1 << 32
_SYNTAX: Final = "telemetry ab -- BEFORE … -- AFTER …"
_ONE_COMMAND: Final = {"refs": " A B", "param": " NAME=A,B", "same": ""}
"""Options that make both sides of one command."""
_SHELL: Final = ["/bin/sh", "-c"]
_FIXED: Final = ("refs", "param", "same", "duet", "warmup", "min_effect", "alpha", "metric", "decide", "seed")
"""Options that hold for all pairs, so that `--resume` takes none of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--refs",
        nargs=2,
        metavar=("A", "B"),
        help="run one CMD in checkouts of two commits, which are removed at the end; your checkout stays as it is",
    )
    parser.add_argument("--setup", metavar="CMD", help="shell command that prepares each checkout of --refs, once")
    parser.add_argument(
        "--param",
        metavar="NAME=A,B",
        help="run one CMD with two values of a parameter; {NAME} in an argument of CMD is replaced",
    )
    parser.add_argument(
        "--same",
        action="store_true",
        help="run one CMD on both sides: measure false alarms and the smallest difference that this machine finds",
    )
    parser.add_argument(
        "--duet",
        action="store_true",
        help="run both commands of a pair at the same time, each on half of the cores (Linux)",
    )
    parser.add_argument(
        "--shell",
        action="store_true",
        help="each CMD is one text for the shell, as in -- 'sort a | uniq' -- 'sort -u a'",
    )
    parser.add_argument(
        "--prepare",
        action="append",
        metavar="CMD",
        help="shell command before each run, which is not measured; give it twice for one of each side",
    )
    parser.add_argument("--pairs", type=int, metavar="N", help=f"most pairs to run (default: {_PAIRS})")
    parser.add_argument("--budget", metavar="TIME", help="begin no pair after pairs took this time, such as 10m")
    parser.add_argument("--warmup", type=int, metavar="N", help="pairs to run first and not to use (default: 1)")
    parser.add_argument(
        "--min-effect", type=fraction, metavar="2%", help="smallest difference that matters (default: 2 %%)"
    )
    parser.add_argument(
        "--alpha", type=fraction, metavar="5%", help="chance of a wrong verdict that is accepted (default: 5 %%)"
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="GLOB",
        help="record each run as `telemetry run` does, and compare these figures, named as in `telemetry compare`; "
        "without it, the time of the commands is compared and nothing is recorded",
    )
    parser.add_argument(
        "--decide",
        action="append",
        metavar="GLOB",
        help="figures that decide; others are shown beside them (default: command:wall, or all of --metric)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random order (default: a new one)")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="DIR",
        help="go on with the pairs of an earlier call (default: the newest); --pairs and --budget may be larger",
    )
    parser.add_argument(
        "--summary",
        metavar="FILE",
        help="write Markdown of at most 30 lines for a pull request to this file, and a picture beside it (.svg)",
    )
    parser.add_argument(
        "--annotate",
        choices=("github", "gitlab"),
        help="print the text as a section of a job's log, and the verdict so that the page of the job shows it",
    )
    find_run.add_dir_argument(parser)
    add_output_arguments(parser, FORMATS, STEM)
    parser.add_argument(
        "commands", nargs=argparse.REMAINDER, metavar="-- A … -- B …", help="commands before and after the change"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.cli.ab.session import AbSession, locked, newest_directory, read_result
    from telemetry.report.ab import conclusion

    wanted = outputs(args.formats, args.files, FORMATS, STEM)
    if args.annotate and any(output.path is None and output.form != "text" for output in wanted):
        raise UsageError(f"--annotate {args.annotate} goes to stdout too", hint="write the other format to -o FILE")
    given = _commands(args)
    root = find_run.root_directory(args.dir)
    _check_limits(args)
    if args.resume is None:
        result, commands = _new(args, given)
        directory = _new_directory(root, commands.after)
    else:
        directory = Path(args.resume).absolute() if args.resume else newest_directory(root)
    with locked(directory):
        if args.resume is not None:
            result, commands = _resumed(args, read_result(directory), given)
        make_folders(wanted)
        session = AbSession(directory, result, commands, _folder(result), _show)
        try:
            result = session.run()
        finally:
            _clear_line()
    if not (args.annotate or any(output.path is None for output in wanted)):
        console.say(conclusion(result))
    for output in wanted:
        if output.path is not None or not args.annotate:  # annotations have the text
            _write(result, output)
    _write_review(result, args)
    if result.ending != "decided":
        console.say(
            f"the pairs are in {directory}; go on with: telemetry ab --resume {shlex.quote(str(directory))}"
        )
    return 128 + session.ended_by if session.ended_by else _code(result)


def _code(result: AbResult) -> Exit:
    if result.settings.same and result.failures is None:
        is_false_alarm = any(state.verdict not in ("same", "cannot_tell") for state in result.deciding)
        return Exit.GATE_FAILED if is_false_alarm else Exit.OK if result.valid_pairs else Exit.INCONCLUSIVE
    codes = {"worse": Exit.GATE_FAILED, "cannot_tell": Exit.INCONCLUSIVE}
    return codes.get(result.verdict, Exit.OK)


def _commands(args: argparse.Namespace) -> list[list[str]]:
    """Return the commands that were given: none, one or two. Raises UsageError."""
    commands: list[list[str]] = []
    for word in args.commands:
        if word == "--":
            commands.append([])
        elif not commands:
            raise UsageError(f"unexpected argument {word!r}", hint=_SYNTAX)
        else:
            commands[-1].append(word)
    if len(commands) > 2 or not all(commands):
        hint = "put a command with a `--` of its own into sh -c '…'" if len(commands) > 2 else _SYNTAX
        raise UsageError(f"{len(commands)} commands, or an empty one", hint=hint)
    if args.shell:
        if any(len(command) > 1 for command in commands):
            raise UsageError("--shell takes each command as one text", hint="telemetry ab --shell -- '…' -- '…'")
        commands = [[*_SHELL, *command] for command in commands]
    return commands


def _check_limits(args: argparse.Namespace) -> None:
    for option, value, least, most in (
        ("--pairs", args.pairs, 1, _MOST_PAIRS),
        ("--warmup", args.warmup, 0, _MOST_WARMUP),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{option} {value} is out of range", hint=f"give a number from {least} to {most:,}")
    if args.alpha is not None and not 0 < args.alpha < 1:
        raise UsageError("--alpha is out of range", hint="give a share between 0 % and 100 %, such as 5%")
    if args.min_effect is not None and not 0 <= args.min_effect < 1:
        raise UsageError("--min-effect is out of range", hint="give at least 0 % and less than 100 %")
    if len(options := [f"--{name}" for name in _ONE_COMMAND if getattr(args, name)]) > 1:
        hint = "give one commit twice: --refs main main" if options == ["--refs", "--same"] else "leave one out"
        raise UsageError(f"{options[0]} and {options[1]} can't be combined", hint=hint)
    if args.setup is not None and not args.refs and args.resume is None:
        raise UsageError("--setup prepares the checkouts of --refs", hint="add --refs A B, or leave it out")
    if len(args.prepare or []) > 2:
        raise UsageError("--prepare is given more than twice", hint="give it once, or once for each side")


def _budget(args: argparse.Namespace) -> float | None:
    from telemetry.history.time_range import parse_time

    if args.budget is None:
        return None
    budget_s = parse_time(args.budget)
    if budget_s <= 0:
        raise UsageError(f"--budget {args.budget} is no time above 0 s", hint="write it like 10m or 90s")
    return budget_s


def _new(args: argparse.Namespace, given: Sequence[list[str]]) -> tuple[AbResult, Commands]:
    """Return a result without pairs, and the commands of both sides. Raises UsageError."""
    from telemetry.cli.ab.session import Commands, halves
    from telemetry.judge.ab.model import AbResult, AbSettings

    option = next((name for name in _ONE_COMMAND if getattr(args, name)), "")
    if len(given) != (1 if option else 2):
        what = f"--{option} takes one command" if option else "two commands are needed"
        hint = f"telemetry ab --{option}{_ONE_COMMAND[option]} -- CMD …" if option else _SYNTAX
        raise UsageError(what, hint=hint)
    prepare = (args.prepare[0], args.prepare[-1]) if args.prepare else None
    commands = Commands(before=given[0], after=given[-1], setup=args.setup or "", prepare=prepare)
    labels = (carriable(args.refs[0]), carriable(args.refs[1])) if args.refs else None
    redactor = _redactor()
    if args.param:
        commands, labels = _with_values(args.param, commands, redactor)
    shown = _shown(commands, redactor)
    labels = labels or _labels(shown.before, shown.after)
    words_before, words_after = _words(commands)
    if labels[0] == labels[1] and words_before != words_after:
        labels = (f"{labels[0]} (before)", f"{labels[1]} (after)")
    if args.duet:
        halves(Random())
    if not args.refs:
        _check_programs(commands)
    metrics = list(map(carriable, args.metric or []))
    settings = AbSettings(
        before=list(shown.before),
        after=list(shown.after),
        masked=shown != commands,
        labels=labels,
        cwd=carriable(os.getcwd()),
        refs=_commits(args.refs) if args.refs else [],
        setup=shown.setup,
        prepare=shown.prepare,
        same=args.same,
        duet=args.duet,
        seed=secrets.randbelow(_SEEDS) if args.seed is None else args.seed,
        warmup=1 if args.warmup is None else args.warmup,
        alpha=0.05 if args.alpha is None else args.alpha,
        min_effect=0.02 if args.min_effect is None else args.min_effect,
        metrics=metrics,
        decide=list(map(carriable, args.decide or ([] if metrics else ["command:wall"]))),
    )
    return AbResult(settings=settings, most_pairs=args.pairs or _PAIRS, budget_s=_budget(args)), commands


def _check_programs(commands: Commands) -> None:
    """Raise UsageError if a program surely can't be started. The preparation may make those that have a folder."""
    for program in (commands.before[0], commands.after[0]):
        if shutil.which(program) is None and not (os.sep in program and commands.prepare):
            reason = os.strerror(errno.EACCES if os.sep in program and os.path.exists(program) else errno.ENOENT)
            raise UsageError(f"{printable(program)} can't be started: {reason}")


def _with_values(text: str, template: Commands, redactor: Redactor) -> tuple[Commands, tuple[str, str]]:
    """Return the commands with the values of both sides, and the labels of these. Raises UsageError."""
    from dataclasses import replace

    from telemetry.judge.sweeps.params import filled, parse_parameters

    (parameter,) = parse_parameters([text])
    if len(parameter.values) != 2:
        hint = "give two values; `telemetry sweep` runs any number"
        raise UsageError(f"--param {text} has {number_of(len(parameter.values), 'value')}", hint=hint)
    before, after = ({parameter.name: value} for value in parameter.values)
    prepare = template.prepare
    commands = replace(
        template,
        before=filled(template.before, before),
        after=filled(template.after, after),
        prepare=prepare and (filled(prepare[:1], before)[0], filled(prepare[1:], after)[0]),
    )
    if commands.before == commands.after and commands.prepare == prepare:
        hint = f"write {{{parameter.name}}} in one of its arguments"
        raise UsageError(f"the command does not use parameter {parameter.name}", hint=hint)
    return commands, _value_labels(parameter, [template, commands, _shown(commands, redactor)], redactor)


def _value_labels(parameter: Parameter, forms: Sequence[Commands], redactor: Redactor) -> tuple[str, str]:
    """Return the labels of both values. A value is masked if a command has it masked, or if its name asks for it.

    `forms` are the commands with `{NAME}`, with the values, and without secrets.
    """
    from telemetry.judge.sweeps.params import told
    from telemetry.redaction import MASK

    labels = []
    for value, *sides in zip(map(carriable, parameter.values), *map(_words, forms), strict=True):
        shown_value = redactor.value(parameter.name, value)
        for word, filled_word, shown_word in zip(*sides, strict=True):
            is_used = f"{{{parameter.name}}}" in word
            if is_used and carriable(filled_word).count(value) > shown_word.count(shown_value):
                shown_value = MASK
        labels.append(_label(told({redactor.name(parameter.name): shown_value})))
    return labels[0], labels[1]


def _words(commands: Commands) -> tuple[list[str], list[str]]:
    """Return all words of each side: its command and its preparation."""
    before, after = commands.prepare or ("", "")
    return [*commands.before, before], [*commands.after, after]


def _resumed(args: argparse.Namespace, result: AbResult, given: Sequence[list[str]]) -> tuple[AbResult, Commands]:
    """Return an earlier result with the limits of this call, and the commands of both sides. Raises UsageError."""
    from msgspec.structs import replace

    from telemetry.cli.ab.session import Commands

    settings = result.settings
    if changed := [name for name in _FIXED if getattr(args, name) is not None and getattr(args, name) is not False]:
        option = f"--{changed[0].replace('_', '-')}"
        raise UsageError(f"{option} can't change with --resume", hint="only --pairs and --budget can")
    kept = Commands(before=settings.before, after=settings.after, setup=settings.setup, prepare=settings.prepare)
    commands = Commands(
        before=given[0] if given else kept.before,
        after=given[-1] if given else kept.after,
        setup=kept.setup if args.setup is None else args.setup,
        prepare=(args.prepare[0], args.prepare[-1]) if args.prepare else kept.prepare,
    )
    is_whole = given and (args.setup or not kept.setup) and (args.prepare or not kept.prepare)
    if settings.masked and not is_whole:
        options = [f"--{name}" for name in ("setup", "prepare") if getattr(kept, name)]
        raise UsageError(
            "the commands have secrets, or bytes that are not UTF-8, which are not kept",
            hint=f"give the commands again after --resume DIR{''.join(f', and {option}' for option in options)}",
        )
    if _shown(commands, _redactor()) != kept:
        raise UsageError("these are not the commands of the earlier pairs", hint="start anew without --resume")
    limits = {"most_pairs": args.pairs or result.most_pairs, "budget_s": _budget(args) or result.budget_s}
    return replace(result, **limits), commands


def _folder(result: AbResult) -> str:
    """Return the working directory of both commands. A result has its name in UTF-8."""
    here = os.getcwd()
    return here if carriable(here) == result.settings.cwd else result.settings.cwd


def _redactor() -> Redactor:
    """Return the rules for masking from the settings."""
    from telemetry.cli.beside_run.redaction import redactor_of
    from telemetry.config import load

    return redactor_of(load().config)


def _shown(commands: Commands, redactor: Redactor) -> Commands:
    """Return the commands as results have them: without secrets, in UTF-8."""
    from telemetry.cli.ab.session import Commands
    from telemetry.cli.wrapped.command import shown_argv

    def text(command: str) -> str:
        return shown_argv([*_SHELL, command], redactor)[-1]

    prepare = commands.prepare
    return Commands(
        before=shown_argv(commands.before, redactor),
        after=shown_argv(commands.after, redactor),
        setup=text(commands.setup),
        prepare=prepare and (text(prepare[0]), text(prepare[1])),
    )


def _labels(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Return short names of two commands: their programs if these differ, else the commands, or what differs."""
    if list(before[:2]) == list(after[:2]) == _SHELL:
        texts = before[2], after[2]
        if all(columns(text) <= _LABEL_COLUMNS for text in texts):
            return texts
        before, after = (text.split() for text in texts)
    sides = [before, after]
    is_short = all(columns(shlex.join(side)) <= _LABEL_COLUMNS for side in sides)
    if before[0] != after[0]:
        sides = [before[:1], after[:1]]
    elif not is_short and len(before) == len(after) and before != after:
        differ = [at for at in range(len(before)) if before[at] != after[at]]
        sides = [[side[at] for at in differ] for side in sides]
    first, second = (_label(shlex.join(side)) for side in sides)
    return first, second


def _label(text: str) -> str:
    return without_middle(text, _LABEL_COLUMNS)


def _commits(refs: Sequence[str]) -> list[str]:
    from telemetry.cli.ab.checkouts import commit_of

    return [commit_of(ref) for ref in refs]


def _new_directory(root: Path, command: Sequence[str]) -> Path:
    from telemetry.cli.ab.session import FOLDER
    from telemetry.store.run_directory import directory_name

    path = root / FOLDER / directory_name(name_of(command), secrets.token_hex(4), time.time_ns())
    make_folder(path)
    return path


def _show(result: AbResult) -> None:
    """Replace the line on the terminal by the state after a pair."""
    from telemetry.report.ab import progress

    if sys.stderr.isatty():
        line = without_middle(progress(result), console.width(sys.stderr) - 1)
        console.talk(f"\r{line}\x1b[K")


def _clear_line() -> None:
    if sys.stderr.isatty():
        console.talk("\r\x1b[K")


def _write(result: AbResult, output: Output) -> None:
    width, color = console.PIPED_WIDTH, False
    if output.path is None:
        width, color = console.width(sys.stdout), console.color(sys.stdout)
    write(render_as("ab", result, output.form, width=width, color=color), output.path)


def _write_review(result: AbResult, args: argparse.Namespace) -> None:
    """Write what the options for pull requests ask for."""
    from telemetry.report.ab_review import ab_annotations, ab_summary, ab_svg

    if args.summary:
        path = Path(args.summary)
        picture = path.with_suffix(".svg") if result.figures else None
        if picture is not None:
            write(ab_svg(result), picture)
        write(ab_summary(result, "" if picture is None else picture.name), path)
    if args.annotate:
        console.write(ab_annotations(result, args.annotate, time.time()))
