"""`telemetry doctor`: checks whether telemetry can work on this machine, with advice for each problem."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.common import distribution
from telemetry.common.formatting import number_of
from telemetry.config import Config
from telemetry.errors import KeysError, TelemetryError, error_text
from telemetry.wire.exit_codes import Exit

_COLORS = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_dir_argument(parser)
    parser.add_argument("--quick", action="store_true", help="skip the trial run, which takes a few seconds")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")


def run(args: argparse.Namespace) -> int:
    checks = []
    for check in _checks(args):
        checks.append(check)
        if not args.json:
            console.write(_line(check))
    if args.json:
        console.write_json(checks)
    return Exit.ERROR if any(check.status == "fail" for check in checks) else Exit.OK


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    from telemetry.config import load

    try:
        config = load({"run.dir": args.dir}).config
    except TelemetryError as error:
        yield Check(name="configuration", status="fail", found=error.message, advice=error.hint)
        return
    for name, check, slow in CHECKS:
        if not (slow and args.quick):
            yield examine(name, check, config)


def examine(name: str, check: Callable[[Config], Finding], config: Config) -> Check:
    """Run one check. A check that raises counts as failed, so that the others still run."""
    try:
        status, summary, *advice = check(config)
    except Exception as error:  # noqa: BLE001 – a broken machine fails in unforeseen ways
        status, summary, advice = "fail", error_text(error), []
    return Check(name=name, status=status, found=summary, advice="".join(advice))


def _line(check: Check) -> str:
    status = f"{check.status:<4}"
    if console.color(sys.stdout):
        status = f"{_COLORS[check.status]}{status}\x1b[0m"
    advice = f"\n      → {check.advice}" if check.advice else ""
    return f"{status}  {check.name}: {check.found}{advice}\n"


Status = Literal["ok", "warn", "fail"]
Finding = tuple[Status, str] | tuple[Status, str, str]


class Check(Struct, kw_only=True, frozen=True):
    """A line of the doctor's output."""

    name: str
    status: Status
    found: str
    advice: str = ""


_PACKAGES: Final = (distribution.NAME, "pyzmq", "msgspec", "numpy", "hdrhistogram")
_NOT_INSTALLED: Final = "?"
_STRANGER: Final = "telemetry"
_COMPILED: Final = "compiled"
_MISSING: Final = "not compiled"
_STALE: Final = "compiled from other sources, not used"
_OLDEST_PYTHON: Final = (3, 11)
_OLDEST_LIBZMQ: Final = (4, 3)
_LONGEST_SOCKET_NAME: Final = "x" * 8 + "/ctl"
_SLOW_CLOCK_NS: Final = 1_000  # each recorded event reads the clock once
_ROOM_LEAST: Final = 100 * limits.MIB
_FDS_LEAST: Final = 256
_FDS_A_PRODUCER: Final = 2
_HELLO_TIMEOUT_S = 2.0
_TRIAL_EVENTS: Final = 20_000
_TRIAL_TIMEOUT_S: Final = 60.0
_TRIAL: Final = (
    "import telemetry; run = telemetry.start('doctor'); count, values = run.counter('trial'), run.series('value'); "
    f"[(count.add(), values.record(number)) for number in range({_TRIAL_EVENTS // 2})]; run.finish()"
)


def check_versions(_config: Config) -> Finding:
    summary = ", ".join([f"Python {sys.version.split()[0]}", *(f"{name} {_version(name)}" for name in _PACKAGES)])
    if sys.version_info < _OLDEST_PYTHON:
        return "fail", summary, "telemetry needs Python 3.11 or newer"
    if _version(_STRANGER) != _NOT_INSTALLED:
        return (
            "fail",
            (f"{summary}; `{_STRANGER}` is also installed, a different project with a package of the same name"),
            f"pip uninstall {_STRANGER}, then pip install --force-reinstall {distribution.NAME}",
        )
    return "ok", summary


def check_libzmq(_config: Config) -> Finding:
    from telemetry.transport.sockets import zmq_facts

    facts = zmq_facts()
    summary = f"libzmq {facts.libzmq}, ipc {'yes' if facts.ipc else 'no'}, curve {'yes' if facts.curve else 'no'}"
    if tuple(int(part) for part in facts.libzmq.split(".")[:2]) < _OLDEST_LIBZMQ:
        return "fail", summary, "install the pyzmq wheel, which includes a newer libzmq"
    if not facts.ipc:
        return "warn", summary, "use --bind tcp://127.0.0.1:PORT"
    return "ok", summary


def check_compiled(_config: Config) -> Finding:
    """Tell for each module in C whether it is used. The package works without them, only slower."""
    from telemetry.aggregator import compiled
    from telemetry.client import native_module

    if native_module.IS_FREE_THREADED:
        return "ok", "recorder in Python: the compiled one needs the lock that a free-threaded Python does without"
    recorder = _state_of_module("telemetry.client._recorder", native_module.SOURCE_CRC)
    ingest = _state_of_module("telemetry.aggregator._compiled", compiled.SOURCE_CRC)
    if recorder == _COMPILED and native_module.RECORDER is None:
        recorder = f"switched off by {native_module.SWITCH}"
    summary = f"recorder {recorder}, ingest {ingest}"
    if _STALE in (recorder, ingest):
        return "warn", summary, "install telemetry again, so that the C code is compiled again"
    if _MISSING not in (recorder, ingest):
        return "ok", summary
    packages = "xcode-select --install" if sys.platform == "darwin" else "apt-get install gcc python3-dev"
    return (
        "ok",
        f"{summary}: recording and ingest take more time",
        f"for full speed, install a compiler and Python's headers (`{packages}`), then install telemetry again "
        "with pip's options --force-reinstall --no-cache-dir",
    )


def _state_of_module(name: str, source_crc: int) -> str:
    try:
        module = import_module(name)
    except ImportError:
        return _MISSING
    return _COMPILED if source_crc == module.SOURCE_CRC else _STALE


def check_salvage(_config: Config) -> Finding:
    """Tell whether the last events of a killed program can be read."""
    from telemetry.client.native_module import RECORDER
    from telemetry.transport.ring_directory import ring_directory

    if RECORDER is None:
        return "ok", "a killed program loses its last events: the recorder is not compiled"
    path = ring_directory()
    if path is not None:
        return "ok", f"the last events of a killed program are in {path}"
    return (
        "warn",
        "a killed program loses its last events: no tmpfs directory belongs to this user alone",
        "set XDG_RUNTIME_DIR to a private directory on a tmpfs",
    )


def check_runtime_directory(_config: Config) -> Finding:
    from telemetry.transport import runtime_directory

    try:
        path = runtime_directory()
    except TelemetryError as error:
        return "fail", error.message, error.hint
    length = len(os.fsencode(path / _LONGEST_SOCKET_NAME))
    room = f"{path}, socket paths of {length} bytes of {limits.IPC_PATH_BYTES}"
    if length > limits.IPC_PATH_BYTES:
        return "fail", room, "set XDG_RUNTIME_DIR to a shorter directory"
    if not os.access(path, os.W_OK | os.X_OK):
        return "fail", f"{path} is not writable", "set XDG_RUNTIME_DIR to a directory of your own"
    return "ok", room


def check_temporary_directory(_config: Config) -> Finding:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
    except OSError as error:
        return "fail", f"{tempfile.gettempdir()}: {error.strerror}", "set TMPDIR to a writable directory"
    return "ok", tempfile.gettempdir()


def check_run_directory(config: Config) -> Finding:
    from telemetry.common.formatting import size

    path = Path(config.run.dir).absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return "fail", f"{existing} is not writable", "choose another --dir, or set run.fallback_dirs"
    free = shutil.disk_usage(existing).free
    summary = f"{path}, {size(free)} free"
    if free < _ROOM_LEAST:
        return "fail", summary, f"free some space: a run needs at least {size(_ROOM_LEAST)}"
    if config.journal.enabled and free < config.journal.cap_bytes:
        return (
            "warn",
            summary,
            (f"the journal of a long run takes up to {size(config.journal.cap_bytes)}: reduce journal.cap_bytes"),
        )
    return "ok", summary


def check_clock(_config: Config) -> Finding:
    reads = 2_000
    begun = time.perf_counter_ns()
    for _ in range(reads):
        time.monotonic_ns()
    cost_ns = (time.perf_counter_ns() - begun) // reads
    resolution_ns = time.get_clock_info("monotonic").resolution * 1e9
    summary = f"monotonic, {resolution_ns:g} ns resolution, {cost_ns} ns a reading{_clock_source()}"
    if cost_ns > _SLOW_CLOCK_NS:
        return (
            "warn",
            summary,
            "every event reads the clock once: check the kernel's clocksource, the fastest is `tsc`",
        )
    return "ok", summary


def check_open_files(_config: Config) -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return "ok", "no limit"
    summary = (
        f"{soft:,} descriptors, enough for about {number_of(max(0, soft - 64) // _FDS_A_PRODUCER, 'producer')}"
    )
    if soft < _FDS_LEAST:
        return "warn", summary, f"raise the limit with `ulimit -n {min(hard, 4_096) if hard > 0 else 4_096}`"
    return "ok", summary


def check_processors(_config: Config) -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if usable < 2:
        return (
            "warn",
            "1 usable",
            "the aggregator will share this processor with the program it measures: allow a second one",
        )
    return "ok", f"{usable} usable"


def check_endpoint(_config: Config) -> Finding:
    from telemetry.transport import hello

    endpoint = os.environ.get("TELEMETRY_ENDPOINT", "")
    if not endpoint:
        return "ok", "TELEMETRY_ENDPOINT is not set: `start` launches its own aggregator"
    try:
        welcome = hello(endpoint, _HELLO_TIMEOUT_S)
    except KeysError as error:
        return "fail", error.message, error.hint
    except TelemetryError as error:
        return "fail", error.message, "unset TELEMETRY_ENDPOINT, or start the aggregator at that address"
    return "ok", f"{endpoint}: run {welcome.name} {welcome.state}"


def check_keys(config: Config) -> Finding:
    """Check that the user's keys can be used. Having no keys is fine as long as runs stay on this machine."""
    from telemetry.transport import plan
    from telemetry.transport.keys import of_user
    from telemetry.transport.sockets import zmq_facts
    from telemetry.transport.zap import keys_for

    try:
        folder = of_user(config.security.keys_dir)
        if config.transport.bind:
            keys_for(plan(config.transport.bind, ""), config)
        if not folder.has_pair:
            return "ok", f"none in {folder.path}: needed only for runs that other machines connect to"
        if not zmq_facts().curve:
            return "fail", "this libzmq has no encryption", "install the pyzmq wheel, which includes encryption"
        folder.own()
        trusted = folder.trusted()
    except TelemetryError as error:
        return "fail", error.message, error.hint
    if trusted.problems:
        return "warn", "; ".join(trusted.problems)
    return "ok", f"a pair in {folder.path}, {number_of(len(trusted.keys), 'other')} trusted"


def check_round_trip(_config: Config) -> Finding:
    """Execute a real run: aggregator, producer process, final file."""
    from telemetry.history.result import load_report
    from telemetry.supervise.spawn import telemetry_command

    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tm", ignore_cleanup_errors=True) as folder:
        flags = ["--name", "doctor", "--dir", folder, "--quiet", "--no-collect"]
        command = [*telemetry_command(), "run", *flags, "--"]
        environment = {name: value for name, value in os.environ.items() if name != "TELEMETRY_ENDPOINT"}
        try:
            done = subprocess.run(
                [*command, sys.executable, "-P", "-c", _TRIAL],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "fail", f"the trial run did not end within {_TRIAL_TIMEOUT_S:g} s", "try `telemetry demo`"
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no output"]
            return "fail", f"the trial run exited with code {done.returncode}: {lines[-1]}"
        report = load_report("latest", folder)
    took_s = time.monotonic() - begun
    applied = report.snapshot.accounting.applied
    summary = (
        f"{applied:,} of {_TRIAL_EVENTS:,} events arrived in a trial run of {took_s:.1f} s, {report.completeness}"
    )
    if applied != _TRIAL_EVENTS or report.completeness != "complete":
        return "fail", summary, "; ".join(report.snapshot.warnings)
    return "ok", summary


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return _NOT_INSTALLED


def _clock_source() -> str:
    try:
        text = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        return ""
    return f", source {text}"


CHECKS: Final[list[tuple[str, Callable[[Config], Finding], bool]]] = [
    ("versions", check_versions, False),
    ("ZeroMQ", check_libzmq, False),
    ("compiled", check_compiled, False),
    ("salvage", check_salvage, False),
    ("runtime directory", check_runtime_directory, False),
    ("temporary directory", check_temporary_directory, False),
    ("run directory", check_run_directory, False),
    ("clock", check_clock, False),
    ("open files", check_open_files, False),
    ("processors", check_processors, False),
    ("keys", check_keys, False),
    ("endpoint", check_endpoint, False),
    ("round trip", check_round_trip, True),
]
"""Entries of (name, check, True if the check takes seconds)."""
