"""Warnings and errors of `logging` as marks, read back from real runs. The program's own logging stays as it is."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import telemetry
from telemetry import limits
from telemetry.history.result import load_report
from telemetry.integrations import logging as capture
from telemetry.testing.clock import FakeClock
from telemetry.wire.report import Report

ORDINARY = """
import json, logging, os, sys
import telemetry
from telemetry.integrations import logging as capture

before = logging.Logger.callHandlers
found = {}
with telemetry.start("job", dir=sys.argv[1]) as run:
    capture.install()
    capture.install()
    log = logging.getLogger("train.loop")
    log.info("not a warning")
    log.warning("disk is %s", "nearly full")  # LINE
    log.error("two lines\\nof text")
    log.critical("x" * 3000)
    log.log(35, "a level of its own")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("the step failed")
    log.warning("needs %d and %d", 1)
    log.warning("login with --password hunter2 at https://me:hunter2@host/")
    logging.getLogger("telemetry.client").warning("our own")
    logging.getLogger("telemetryx").warning("of another library")

    silent = logging.getLogger("silent")
    silent.setLevel(logging.ERROR)
    silent.warning("below the level of its logger")
    silent.disabled = True
    silent.error("of a disabled logger")
    alone = logging.getLogger("alone")
    alone.propagate = False
    alone.warning("does not propagate")

    class Chatty(logging.Handler):
        def emit(self, record):
            if record.getMessage() == "first":
                logging.getLogger("chatty").error("of a handler")

    logging.getLogger("chatty").addHandler(Chatty())
    logging.getLogger("chatty").warning("first")

    handed = logging.LogRecord("other", logging.ERROR, "f.py", 1, "of another process", (), None)
    handed.process = 1
    logging.getLogger("other").handle(handed)

    logging.getLogger("odd").handle(logging.makeLogRecord({"levelno": 40, "msg": "without a name"}))
    class Wordless:
        def __str__(self):
            raise RuntimeError("no words")

    odd = logging.makeLogRecord({"levelno": 40, "msg": "with an odd name", "name": Wordless()})
    logging.getLogger("odd").handle(odd)
    cut = "y" * 490
    log.warning(f"{cut} https://me:hunter2@host/ and more")

    found["root handlers"] = len(logging.getLogger().handlers)
    logging.basicConfig(format="configured %(message)s", stream=sys.stderr)
    found["root handlers after basicConfig"] = len(logging.getLogger().handlers)
    log.warning("after basicConfig")

    capture.uninstall()
    found["restored"] = logging.Logger.callHandlers is before
    log.warning("uninstalled")
    capture.uninstall()
    capture.install()
    log.warning("installed again")
    child = os.fork()
    if not child:
        log.warning("in a forked child")
        sys.exit(0)
    os.waitpid(child, 0)
log.warning("after the run")
print(json.dumps(found))
"""

UNCHANGED = """
import logging, sys, telemetry.client
if sys.argv[1:] == ["captured"]:
    from telemetry.integrations import logging as capture
    capture.install()
log = logging.getLogger("any")
log.warning("by the last resort")
log.info("nowhere")
logging.basicConfig(level=logging.INFO)
log.info("by the root handler of basicConfig")
log.warning("%d", "no number")
logging.basicConfig(level=logging.DEBUG)  # without effect
log.debug("nowhere")
logging.lastResort = None
log.propagate = False
log.warning("to no handler")
"""

FLOOD = """
import logging, multiprocessing, sys

def flood(count):
    for number in range(count):
        logging.getLogger("flood").warning("message %d", number)

if __name__ == "__main__":
    logging.getLogger().addHandler(logging.NullHandler())
    child = multiprocessing.get_context(sys.argv[1]).Process(target=flood, args=(300,))
    child.start()
    child.join()
    flood(200)
"""


def run_child(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path), *words], capture_output=True, text=True, cwd=folder, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


class Ordinary:
    """The output, the report and the marks of the first program."""

    def __init__(self, folder: Path) -> None:
        done = run_child(folder, ORDINARY, str(folder / "runs"))
        self.found: dict[str, Any] = json.loads(done.stdout)
        self.stderr = done.stderr
        (directory,) = (path for path in (folder / "runs").iterdir() if not path.is_symlink())
        self.report: Report = load_report(directory)
        self.marks = {mark.text: mark.labels for mark in self.report.snapshot.marks}


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Ordinary:
    return Ordinary(tmp_path_factory.mktemp("logging"))


def test_a_warning_is_a_mark_with_its_origin(ordinary: Ordinary) -> None:
    """The line is that of the program, not one of the capture."""
    line = next(n for n, text in enumerate(ORDINARY.splitlines(), 1) if text.endswith("# LINE"))
    assert ordinary.marks["disk is nearly full"] == {
        "logger": "train.loop",
        "level": "WARNING",
        "where": f"program.py:{line}",
    }


@pytest.mark.parametrize(
    ("text", "level"),
    [("two lines …", "ERROR"), ("x" * 500 + " …", "CRITICAL"), ("a level of its own", "Level 35")],
    ids=["several lines", "a long line", "a level without a name"],
)
def test_higher_levels_are_marks_of_one_short_line(ordinary: Ordinary, text: str, level: str) -> None:
    """A mark is a line of the report."""
    assert ordinary.marks[text]["level"] == level


def test_an_exception_is_named(ordinary: Ordinary) -> None:
    """A mark names its exception but not the traceback, which the program's own log has."""
    assert ordinary.marks["the step failed"]["exception"] == "ZeroDivisionError: division by zero"


def test_a_message_whose_arguments_do_not_fit_is_kept_raw(ordinary: Ordinary) -> None:
    """A message whose arguments do not fit is kept raw. `logging` prints a traceback, and the program goes on."""
    assert "needs %d and %d" in ordinary.marks


def test_secrets_are_masked(ordinary: Ordinary) -> None:
    """Marks end in files and trackers."""
    assert "login with --password *** at https://me:***@host/" in ordinary.marks
    assert not any("hunt" in text for text in ordinary.marks)


def test_a_secret_is_masked_before_the_text_is_cut(ordinary: Ordinary) -> None:
    """Half of a secret is not recognized as one."""
    assert "y" * 490 + " https://m …" in ordinary.marks


def test_a_record_without_a_name_is_recorded(ordinary: Ordinary) -> None:
    """Records that come from elsewhere, such as a queue, may lack anything."""
    assert "without a name" in ordinary.marks


def test_a_record_that_fails_is_counted(ordinary: Ordinary) -> None:
    """The program goes on."""
    assert "with an odd name" not in ordinary.marks
    (producer,) = (each for each in ordinary.report.snapshot.producers if each.dropped_by_producer)
    assert producer.dropped_by_producer == {"unencodable": 1}
    assert "logging: a call of Logger.callHandlers was not recorded: RuntimeError: no words" in ordinary.stderr


@pytest.mark.parametrize(
    "text",
    [
        "of another library",
        "does not propagate",
        "first",
        "of a handler",
        "after basicConfig",
        "installed again",
        "in a forked child",
    ],
)
def test_what_is_recorded(ordinary: Ordinary, text: str) -> None:
    """Loggers that don't propagate never reach a handler of the root logger."""
    assert text in ordinary.marks


@pytest.mark.parametrize(
    "text",
    [
        "not a warning",
        "our own",
        "below the level of its logger",
        "of a disabled logger",
        "of another process",
        "uninstalled",
        "after the run",
    ],
)
def test_what_is_not_recorded(ordinary: Ordinary, text: str) -> None:
    """Messages that `logging` drops, of other processes and of the package itself are not recorded."""
    assert text not in ordinary.marks


def test_each_message_is_recorded_once(ordinary: Ordinary) -> None:
    """Each message is recorded once, despite a second `install()` and a handler that logs."""
    assert len(ordinary.report.snapshot.marks) == len(ordinary.marks) == 16


def test_nothing_is_lost_or_late(ordinary: Ordinary) -> None:
    """A message after the end of the run is not counted as an event that came late."""
    assert sum(each.missing for each in ordinary.report.snapshot.producers) == 0
    assert "not in the result" not in ordinary.stderr


def test_basic_config_still_works(ordinary: Ordinary) -> None:
    """The capture adds no handler to the root logger, because `basicConfig` would then do nothing."""
    assert ordinary.found == {"root handlers": 0, "root handlers after basicConfig": 1, "restored": True}
    assert "configured after basicConfig" in ordinary.stderr


def test_the_programs_output_is_the_same_with_and_without(tmp_path: Path) -> None:
    """The program's output is the same with and without the capture.

    This covers the handler of last resort and a message that can't be formatted.
    """
    plain, captured = run_child(tmp_path, UNCHANGED), run_child(tmp_path, UNCHANGED, "captured")

    def told(done: subprocess.CompletedProcess[str]) -> list[str]:
        return [line for line in done.stderr.splitlines() if not line.startswith("  ")]  # without the call stack

    assert told(captured) == told(plain)
    assert "by the last resort" in plain.stderr
    assert "WARNING:any:by the last resort" not in plain.stderr
    assert "INFO:any:by the root handler of basicConfig" in plain.stderr


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_flood_is_limited_and_counted_at_the_end(tmp_path: Path, method: str) -> None:
    """A flood is limited, and the messages left out are counted at the end.

    This holds for the process and for a child of `multiprocessing`, which skips `atexit`.
    """
    path = tmp_path / "flood.py"
    path.write_text(FLOOD)
    command = [sys.executable, "-m", "telemetry", "run", "--quiet", "--capture", "logging", "--"]
    done = subprocess.run(
        [*command, sys.executable, str(path), method],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = load_report(tmp_path / "runs" / "latest")
    assert str(report).startswith("complete")
    marks = [mark.text for mark in report.snapshot.marks]
    left_out = [int(text.split()[0]) for text in marks if text.endswith("left out")]
    recorded = sum(text.startswith("message") for text in marks)
    assert 40 <= recorded < 500
    assert len(left_out) >= 2
    assert recorded + sum(left_out) == 500


# --- the limits ----------------------------------------------------------------------------------


def record(number: int) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "f.py", 1, f"message {number}", (), None)


def marks_of(tmp_path: Path, clock: FakeClock, steps: list[tuple[int, float]]) -> list[str]:
    """Log so many messages, wait so many seconds, and so on. Returns the texts of the marks in the record log."""
    with telemetry.start("limits", dir=tmp_path) as run:
        messages = capture.Messages(lambda: clock.monotonic_ns() / 1e9)
        number = 0
        for count, seconds in steps:
            for _ in range(count):
                number += 1
                messages.observe(record(number))
            clock.advance(seconds)
        messages.tell_left_out()
        messages.tell_left_out()
        directory = Path(run.directory)
    text = (directory / "records" / "records.jsonl").read_text()
    return [line["text"] for line in map(json.loads, text.splitlines()) if line.get("type") == "mark"]


def test_a_burst_is_cut_and_the_next_message_tells_how_many_were_left_out(tmp_path: Path) -> None:
    """The number comes before the message, and only once."""
    found = marks_of(tmp_path, FakeClock(), [(50, 1.0), (1, 0.0)])
    assert found == [*(f"message {number}" for number in range(1, 21)), "30 log messages left out", "message 51"]


def test_room_for_messages_comes_back_with_time(tmp_path: Path) -> None:
    """One message after a twentieth of a second, twenty after an hour."""
    found = marks_of(tmp_path, FakeClock(), [(20, 0.051), (2, 3600.0), (21, 0.0)])
    assert found.count("1 log message left out") == 2
    assert len(found) == 20 + 1 + 20 + 2


def test_a_process_has_a_limit_in_all(tmp_path: Path) -> None:
    """A loop that warns for days fills no record log; the rest is counted."""
    seconds = limits.LOG_MARKS // limits.LOG_MARKS_A_SECOND
    found = marks_of(tmp_path, FakeClock(), [(20, 1.0)] * (seconds + 5))
    assert found[-2:] == [
        "1,000 log messages recorded; further ones of this process are only counted",
        "100 log messages left out",
    ]
    assert len(found) == limits.LOG_MARKS + 2
