"""Results of Gatling: its simulation.log, as text up to version 3.12, and binary since 3.13.

A request lasts from its start to its end, in whole milliseconds and with connecting, as in Gatling's reports. What
a group took is a series, and no request: its requests are in the log, too.
"""

from __future__ import annotations

from collections import Counter
from typing import BinaryIO, Final

from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results

TOOL: Final = "Gatling"
LOOKS_FOR: Final = "Gatling: simulation.log, or the folder that has it"

_NS_PER_MS: Final = 1_000_000
_RUN, _REQUEST, _USER, _GROUP, _ERROR = range(5)
"""Kinds of records in the binary log."""
_RUN_START: Final = b"\0\0\0\0"
"""Kind of the first record, and the upper bytes of the length of the version in it."""
_STRING_BYTES: Final = 1 << 24


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is a log of Gatling, or a folder has one."""
    log = _log(file)
    if log.head.startswith(_RUN_START):
        return log.head[5:6].isdigit() and b"." in log.head[5:13]
    return log.first_line.startswith(("RUN\t", "ASSERTION\t"))


def read(file: ResultFile, results: Results) -> None:
    """Read the log, as far as its records are whole."""
    log, events = _log(file), _Events(results)
    read_log = _read_binary if log.head.startswith(_RUN_START) else _read_text
    try:
        read_log(log, events)
    except EOFError:
        if not results.version:
            raise
        results.is_interrupted = True
        results.lacks("what came after the last whole record: the file ends within one")


def _log(file: ResultFile) -> ResultFile:
    return file.member("simulation.log", "simulation.log.gz") or file


class _Events:
    """A collector of the events in a log, with times in milliseconds."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._users: Counter[str] = Counter()
        self._requests = results.requests_of("http")

    def run(self, version: str, simulation: str, description: str) -> None:
        self.results.version, self.results.name = version, simulation.rpartition(".")[2]
        self.results.param("simulation", simulation)
        self.results.param("description", description.strip() or None)

    def user(self, scenario: str, is_start: bool, at_ms: int) -> None:
        scenario = self.results.label("scenario", scenario)
        self._users[scenario] += 1 if is_start else -1
        users = self.results.values_of("gauge", "users", "", {"scenario": scenario})
        users.add(_ns(at_ms), float(self._users[scenario]))

    def request(self, name: str, start_ms: int, end_ms: int, is_ok: bool, message: str) -> None:
        if end_ms < start_ms:
            self.results.lacks("durations of incoming messages that answer no request: they are left out")
            return
        failure = "" if is_ok else _failure(message.strip())
        self._requests.add(_ns(start_ms), _ns(end_ms), failure=failure, part=self.results.label("name", name))

    def group(self, path: str, start_ms: int, end_ms: int, requests_ms: int) -> None:
        labels = {"group": self.results.label("group", path)}
        for name, value in (("group.duration", end_ms - start_ms), ("group.response_time", requests_ms)):
            self.results.values_of("series", name, "ms", labels).add(_ns(end_ms), float(value))

    def error(self, message: str, at_ms: int) -> None:
        labels = {"error": self.results.label("error", message.strip())}
        self.results.values_of("counter", "errors", "", labels).add(_ns(at_ms), 1.0)


def _ns(ms: int) -> int:
    return ns_of(ms, _NS_PER_MS)


def _failure(message: str) -> str:
    """Return the status that a check did not expect, else the message."""
    status = message.rpartition("but actually found ")[2]
    return f"status {status}" if "status" in message and status.isdecimal() else message or "failed"


# --- text ----------------------------------------------------------------------------------------


def _read_text(log: ResultFile, events: _Events) -> None:
    for number, line in enumerate(log.lines(), 1):
        if not line.endswith(b"\n"):
            raise EOFError("the file ends within a record")
        try:
            _take(line.decode("utf-8-sig", "replace").rstrip("\r\n").split("\t"), events)
        except (ValueError, IndexError) as error:
            raise ValueError(f"line {number} is no record of Gatling 3: {error}") from error


def _take(cells: list[str], events: _Events) -> None:
    """Take a line. Versions before 3.4 have the number of a user in front of what is read here."""
    match cells:
        case ["REQUEST", *_, groups, name, start, end, ("OK" | "KO") as status, message]:
            path = " / ".join(filter(None, [*groups.split(","), name]))
            events.request(path, int(start), int(end), status == "OK", message)
        case ["USER", scenario, *_, ("START" | "END") as event, at]:
            events.user(scenario, event == "START", int(at))
        case ["USER", scenario, _, ("START" | "END") as event, start, end]:
            events.user(scenario, event == "START", int(start if event == "START" else end))
        case ["GROUP", *_, groups, start, end, requests_ms, "OK" | "KO"]:
            events.group(" / ".join(groups.split(",")), int(start), int(end), int(requests_ms))
        case ["ERROR", message, at]:
            events.error(message, int(at))
        case ["RUN", simulation, _, _, description, version]:
            events.run(version, simulation, description)
        case ["ASSERTION", *_] | [""]:
            pass
        case _:
            raise ValueError(f"it begins with {cells[0][:40]!r} and has {len(cells)} columns")


# --- binary --------------------------------------------------------------------------------------


class _Binary:
    """A reader of numbers and texts, as `LogFileDataWriter.scala` writes them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._texts: dict[int, str] = {}

    def take(self, size: int) -> bytes:
        """Return so many bytes. Raises EOFError at the end of the file."""
        if not 0 <= size <= _STRING_BYTES:
            raise ValueError(f"a text can't have {size} bytes")
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError("the file ends within a record")
        return data

    def flag(self) -> bool:
        return self.take(1) != b"\0"

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def text(self) -> str:
        """Return a text as a JVM has it: Latin-1, or UTF-16 in the byte order of x86 and ARM."""
        if (size := self.number()) == 0:
            return ""
        data = self.take(size)
        return data.decode("utf-16-le" if self.flag() else "latin-1")

    def cached_text(self) -> str:
        """Return a text that is written once, and then referred to by its negative number."""
        if (number := self.number()) >= 0:
            self._texts[number] = self.text()
        return self._texts[abs(number)]

    def path(self) -> str:
        return " / ".join([self.cached_text() for _ in range(self.number())])


def _read_binary(log: ResultFile, events: _Events) -> None:
    with log.open() as file:
        data = _Binary(file)
        data.take(1)
        version, simulation, origin_ms, description = data.text(), data.text(), data.number(8), data.text()
        events.run(version, simulation, description)
        scenarios = [data.text() for _ in range(data.number())]
        for _ in range(data.number()):
            data.take(data.number())  # an assertion
        while kind := file.read(1):
            _take_record(kind[0], data, events, scenarios, origin_ms)


def _take_record(kind: int, data: _Binary, events: _Events, scenarios: list[str], origin_ms: int) -> None:
    if kind == _REQUEST:
        path = " / ".join(filter(None, (data.path(), data.cached_text())))
        start_ms, end_ms = origin_ms + data.number(), origin_ms + data.number()
        events.request(path, start_ms, end_ms, data.flag(), data.cached_text())
    elif kind == _USER:
        events.user(scenarios[data.number()], data.flag(), origin_ms + data.number())
    elif kind == _GROUP:
        events.group(data.path(), origin_ms + data.number(), origin_ms + data.number(), data.number())
        data.flag()
    elif kind == _ERROR:
        events.error(data.cached_text(), origin_ms + data.number())
    else:
        raise ValueError(f"it has a record of the unknown kind {kind}: was it written by a newer Gatling?")
