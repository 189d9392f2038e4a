"""`telemetry serve`: the aggregator alone, in the foreground."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console
from telemetry.cli.beside_run import redaction
from telemetry.cli.commands.clean import apply_retention
from telemetry.common.formatting import number_of
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit, strictly
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot, RootStat

if TYPE_CHECKING:
    from telemetry.cli.beside_run.collectors import RunCollectors
    from telemetry.config.schema import Config

FLAGS = {
    "dir": "run.dir",
    "refresh_hz": "run.refresh_hz",
    "bind": "transport.bind",
    "insecure": "transport.insecure",
    "journal": "journal.enabled",
    "worker_grace": "run.worker_grace_s",
    "tokenizer": "tokens.tokenizer",
    "token_workers": "tokens.workers",
    "token_budget": "tokens.budget_s",
    "upstream": "upstream.address",
    "node": "upstream.node",
    "nodes": "run.nodes",
    **redaction.FLAGS,
}
"""Command-line names → configuration keys."""
REMIND_S: Final = 60.0
"""Seconds between two lines about a root that does not answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default=None, help="name of the run (default: the host name)")
    add_run_flags(parser)
    add_param_argument(parser)
    parser.add_argument("--bind", default=None, help="control address: tcp://host:port or ipc://path")
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="allow a tcp address that is not loopback without keys: anyone on the network can then "
        "read, write and stop the run",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 4 if the result is not complete, 5 if the run was interrupted, 6 if a feed, a backend or a "
        "collector failed, or the root did not take this node",
    )
    parser.add_argument(
        "--resume",
        default=None,
        metavar="RUN",
        help="continue a run whose aggregator died, in the same directory and at the same address; with --bind it "
        "moves to another address, and with --upstream a leaf follows its root to another one",
    )
    parser.add_argument("--run-id", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--takes-name", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--owner-pid", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--backend", dest="backends", action="append", default=[], help=argparse.SUPPRESS)


def add_param_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--param",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the run, such as concurrency=4; the command of `run` finds it in "
        "TELEMETRY_PARAM_CONCURRENCY; repeatable",
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `run` and `serve` share. Each overrides a configuration key."""
    parser.add_argument("--dir", default=None, help="parent folder of the run directories (default: runs)")
    parser.add_argument("--refresh-hz", type=float, default=None, help="snapshots per second (default: 10)")
    parser.add_argument(
        "--no-journal",
        dest="journal",
        action="store_false",
        default=None,
        help="do not write a journal; percentiles then have the stated error bound",
    )
    parser.add_argument(
        "--tokenizer",
        default=None,
        metavar="PATH",
        help="count the tokens of recorded texts with this tokenizer.json",
    )
    parser.add_argument(
        "--token-workers",
        type=int,
        default=None,
        metavar="N",
        help="number of processes that count tokens (default: 1)",
    )
    parser.add_argument(
        "--token-budget",
        type=float,
        default=None,
        metavar="SECONDS",
        help="longest wait at the end for texts that are still being counted (default: 60)",
    )
    parser.add_argument(
        "--feed",
        dest="feeds",
        action="append",
        default=[],
        metavar="NAME[:ADDRESS]",
        help="receive what another program publishes, as `telemetry feed` does; repeatable",
    )
    parser.add_argument(
        "--collect",
        action="append",
        default=[],
        metavar="NAME[:key=value,…]",
        help="record with this collector too, in a process beside the run, such as scrape:url=localhost:8000; "
        "repeatable; `telemetry plugins list --full` shows the collectors",
    )
    redaction.add_arguments(parser)
    _add_node_flags(parser)
    _add_backend_flags(parser)


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        default=None,
        metavar="ADDRESS",
        help="make this run a node of the run at ADDRESS, which gets its numbers each second",
    )
    parser.add_argument("--node", default=None, metavar="NAME", help="name of this node (default: the host name)")
    parser.add_argument(
        "--nodes",
        default=None,
        metavar="N|NAME,…",
        help="nodes that belong to this run, by number or by name: it is not complete without each of them",
    )


def _add_backend_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="NAME[:key=value,…]",
        help="export the run to a backend such as tensorboard, in a separate process; repeatable; "
        "`telemetry export --list` shows the backends (default: the setting backends.to)",
    )
    parser.add_argument("--no-backends", action="store_true", help="ignore the setting backends.to")
    parser.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="URL",
        help="send notifications to this address of Apprise, such as ntfy://TOPIC, about a failed gate or command, "
        "a stall, NaN, errors, and the end; repeatable (default: the setting notify.urls)",
    )
    parser.add_argument("--no-notify", action="store_true", help="ignore the setting notify.urls")
    parser.add_argument(
        "--timeline-dir",
        default="",
        metavar="DIR",
        help="write the spans of each step to DIR/timeline_step_N.json, in the Chrome trace format",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=None,
        metavar="SECONDS",
        help="time between two readings of counters, gauges and series for backends (default: the "
        "setting backends.every_s)",
    )


def collectors(
    args: argparse.Namespace, config: Config, say: Callable[[str], object], *, defaults: bool = True
) -> RunCollectors:
    """Return the collectors from the command line, and with `defaults` those of the settings.

    Raises UsageError for an invalid one.
    """
    from telemetry.cli.beside_run.collectors import RunCollectors

    is_leaf = bool(config.upstream.address)
    node = config.upstream.node or socket.gethostname() if is_leaf else ""
    names = config.collect.names if defaults and not args.no_collect else ()
    return RunCollectors(args.collect, names, say, node=node)


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """Return configuration keys with the values of the command line, and with the percentiles that feeds need.

    Raises UsageError for an unknown feed, ConfigError for invalid settings.
    """
    flags: dict[str, object] = {key: getattr(args, flag, None) for flag, key in FLAGS.items()}
    if args.feeds:
        from telemetry.config.load import load
        from telemetry.integrations.feeds import with_percentiles

        flags["run.percentiles"] = ",".join(with_percentiles(args.feeds, load(flags).config.run.percentiles))
    return flags


def run(args: argparse.Namespace) -> int:
    # numpy starts a thread per core for linear algebra by default; the aggregator does no linear algebra
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from telemetry.cli.beside_run.feeds import Feeds
    from telemetry.cli.beside_run.participants import BegunRun
    from telemetry.cli.beside_run.writers import RunWriters, writers
    from telemetry.config.load import load
    from telemetry.config.notify_urls import without_secrets
    from telemetry.daemon import DaemonOptions, run_daemon
    from telemetry.judge.sweeps.params import parse_assignments, scalar
    from telemetry.supervise.writers import Writers

    name = args.name or socket.gethostname()
    check_name(name)
    loaded = load(flags_of(args))
    if args.resume is None:
        with_checked_node(args, loaded.config)
    root = Path(loaded.config.run.dir).absolute()
    redactor = redaction.redactor_of(loaded.config)
    options = DaemonOptions(
        name=redactor.name(name),
        takes_name=args.takes_name,
        run_id=args.run_id or secrets.token_hex(4),
        epoch=secrets.token_hex(4),
        root=root,
        config=loaded.config,
        owner_pid=args.owner_pid,
        ready_fd=args.ready_fd,
        command_line=tuple(redactor.arguments(without_secrets(sys.argv))),
        resume=_to_resume(args, root),
        new_bind=args.bind or "" if args.resume is not None else "",
        new_upstream=args.upstream or "" if args.resume is not None else "",
        params=redactor.value("", {key: scalar(text) for key, text in parse_assignments(args.params).items()}),
    )
    begun: list[bool] = []
    alone = args.ready_fd is None
    asked_writers = writers(args, loaded.config, console.say) if alone else Writers((), console.say)

    def say_waiting(message: str) -> None:
        console.say(f"{message}; press Ctrl-C or send a signal to stop waiting")

    with (
        redaction.in_environment(loaded.config.redact),
        Feeds(args.feeds, texts=bool(loaded.config.tokens.tokenizer)) as feeding,
        collectors(args, loaded.config, console.say, defaults=False) as collecting,
        RunWriters(asked_writers, loaded.config.backends.finish_timeout_s, say_waiting) as backends,
    ):

        def ready(facts: dict[str, object]) -> None:
            begun.append(True)
            if alone:
                say_where(facts)
            begun_run = BegunRun(str(facts["name"]), str(facts["endpoint"]), str(facts["dir"]))
            feeding.begin(begun_run)
            collecting.start(begun_run.endpoint)
            backends.begin(begun_run)

        expected = (*map(_backend, args.backends), *backends.expected)
        root_watch = RootWatch(console.say) if alone else RootWatch(lambda line: None)
        written, snapshot = run_daemon(replace(options, backends=expected), ready, root_watch.look)
        backends.deliver(snapshot.backends)
    if not begun:
        console.say("nothing to resume: the run has already ended")
    if alone:
        say_outcome(snapshot)
        apply_retention(loaded.config)
    if not written:
        return Exit.ERROR
    completeness = Report(snapshot=snapshot, source="pubsub").completeness
    failed = feeding.failed or backends.failed or collecting.failed or lacks_root(snapshot)
    return strictly(completeness, backend_failed=failed) if args.strict else Exit.OK


def _backend(text: str) -> BackendStat:
    """Return the backend of a `KIND=NAME`, whose writer another process is about to start."""
    kind, _, name = text.partition("=")
    return BackendStat(name=name, kind=kind)


def _to_resume(args: argparse.Namespace, root: Path) -> Path | None:
    """Return the directory of the run to resume. Raises UsageError for flags that contradict its manifest."""
    if args.resume is None:
        return None
    kept = ("name", "run_id", "journal", "node", "nodes")
    conflicts = [flag for flag in kept if getattr(args, flag) is not None] + (["param"] if args.params else [])
    if conflicts:
        flags = ", ".join(f"--{'no-' if flag == 'journal' else ''}{flag.replace('_', '-')}" for flag in conflicts)
        raise UsageError(
            f"{flags} can't be combined with --resume: a resumed run keeps its settings", hint="remove it"
        )
    if args.ready_fd is not None:  # a program passes a directory, and gets its errors from the daemon
        return Path(args.resume)
    from telemetry.store.run_directory import resolve

    return resolve(args.resume, root).path


def check_name(name: str) -> None:
    """Raise UsageError unless `name` can be the name of a run. Names of runs and of metrics share their bounds."""
    if not name.strip() or len(name) > limits.NAME_CHARS or not name.isprintable():
        raise UsageError(
            f"{name[:40]!r} is not a valid name for a run", hint=f"1 to {limits.NAME_CHARS} printable characters"
        )


def with_checked_node(args: argparse.Namespace, config: Config) -> Config:
    """Return the settings. Raises UsageError for a `--node` of a run that is no node of another one."""
    if args.node and not config.upstream.address:
        raise UsageError("--node names the node of a leaf, and this run has no root", hint="add --upstream ADDRESS")
    return config


def say_outcome(snapshot: MetricsSnapshot) -> None:
    report = Report(snapshot=snapshot, source="pubsub")
    last = snapshot.root.reason if snapshot.root is not None else ""
    warnings = [warning for warning in snapshot.warnings if warning != last]
    for line in filter(None, (report.headline(), *warnings, report.directory, last)):
        console.say(line)


class RootWatch:
    """A watcher of the root of this run: it tells when the root does not answer, and again each minute."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._reason = ""
        self._due_s = 0.0

    def look(self, root: RootStat | None) -> None:
        """Tell what is wrong with the root, or that it answers after all. `root` is None for a run without one."""
        if root is None or root.state in ("delivered", "undelivered"):
            return
        if root.reason and (root.reason != self._reason or self._clock() >= self._due_s):
            self._say(root.reason)
            self._due_s = self._clock() + REMIND_S
        elif self._reason and root.state == "connected":
            self._say(f"connected to the root at {root.address}, which gets what it has missed")
        self._reason = root.reason


def lacks_root(snapshot: MetricsSnapshot) -> bool:
    """Return whether this run is a leaf whose root did not take its last account."""
    return snapshot.root is not None and snapshot.root.state != "delivered"


def say_where(facts: dict[str, object]) -> None:
    events = facts.get("resumed_with")
    what = f" continues with {number_of(events, 'event')}" if isinstance(events, int) else ""
    console.say(f"run {facts['name']} ({facts['run_id']}){what} in {facts['dir']}")
    console.say(f"export TELEMETRY_ENDPOINT={shlex.quote(str(facts['endpoint']))}")
    if facts.get("upstream"):
        console.say(f"node {facts['node']} of the run at {facts['upstream']}")
    trusted = facts.get("trusted")
    if trusted is not None:
        others = f"and {trusted:,} trusted" if trusted else "only; add others with `telemetry keys trust`"
        console.say(f"encrypted; accepts this user's own key {others}")
