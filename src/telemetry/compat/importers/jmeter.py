"""Results of JMeter: its JTL files, as CSV with or without a header, and as XML.

The time of a sample is its start, as JMeter is shipped (sampleresult.timestamp.start=true). Its latency is
`elapsed`: to the last byte, with connecting. Nothing is counted twice: a transaction is a value of the series
`transaction.duration`, not a request. Samples inside another one, such as redirects and embedded resources, are a
part of it, unless that is a transaction, whose samples are requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.parsers import expat

from telemetry.compat.importers.result_file import ResultFile, ns_of, unix_ns
from telemetry.compat.importers.results import Results

TOOL: Final = "JMeter"
LOOKS_FOR: Final = "JMeter: JTL files, as CSV or XML"

_HEADER: Final = re.compile(r"timeStamp(\W)elapsed\1")
_BEGIN: Final = "timeStamp elapsed label responseCode responseMessage threadName dataType success "
_WITHOUT_HEADER: Final = {
    len(names.split()): names.split()
    for names in (
        f"{_BEGIN}bytes grpThreads allThreads Latency",
        f"{_BEGIN}failureMessage bytes sentBytes grpThreads allThreads Latency IdleTime Connect",
        f"{_BEGIN}failureMessage bytes sentBytes grpThreads allThreads URL Latency IdleTime Connect",
    )
}
"""Number of columns → default columns of JMeter 2, 3 and 4 or later."""
_FIRST_ROW: Final = re.compile(r"(\d{13}|\d{4}[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d[.\d]*),\d+,.*,(true|false),")
_IN_XML: Final = {
    "ts": "timeStamp",
    "t": "elapsed",
    "lb": "label",
    "rc": "responseCode",
    "rm": "responseMessage",
    "tn": "threadName",
    "s": "success",
    "lt": "Latency",
    "ct": "Connect",
    "na": "allThreads",
    "sc": "SampleCount",
}
"""Attribute of a sample in XML → column in CSV."""
_SAMPLES: Final = ("sample", "httpSample", "statSample")
_FIGURES: Final = {"Latency": "first_byte", "Connect": "connect"}
_TRANSACTION: Final = "Number of samples in transaction : "
_NO_STATUS, _NO_MESSAGE = "Non HTTP response code: ", "Non HTTP response message: "
_FIRST_ERROR: Final = 400
_NS_PER_MS: Final = 1_000_000


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of JMeter."""
    return bool(_HEADER.match(file.first_line) or _FIRST_ROW.match(file.first_line) or _is_xml(file))


def read(file: ResultFile, results: Results) -> None:
    """Read the samples."""
    samples = _Samples(results)
    if _is_xml(file):
        _read_xml(file, samples)
        return
    for number, row in enumerate(_rows(file), 1):
        try:
            samples.add(row)
        except ValueError as error:
            raise ValueError(f"sample {number}: {error}") from error


def _is_xml(file: ResultFile) -> bool:
    return b"<testResults" in file.head[:1_000]


def _rows(file: ResultFile) -> Iterator[Mapping[str, str]]:
    header = _HEADER.match(file.first_line)
    if header is not None:
        yield from file.dict_rows(header[1])
        return
    for row in file.rows():
        if (names := _WITHOUT_HEADER.get(len(row))) is None:
            raise ValueError(
                f"a row without a header has {len(row)} columns, which are not the default ones:"
                " set jmeter.save.saveservice.print_field_names=true"
            )
        yield dict(zip(names, row, strict=True))


class _Samples:
    """A collector of samples, which tells requests from transactions."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._figures: Sequence[str] | None = None
        self._latest: dict[str, int] = {}
        """Thread → start of its latest request."""

    def add(self, sample: Mapping[str, str]) -> None:
        """Add a sample. Raises ValueError if it stands for several."""
        start_ns = self._start_ns(sample["timeStamp"])
        end_ns = start_ns + ns_of(int(sample["elapsed"]), _NS_PER_MS)
        if (users := sample.get("allThreads")) is not None:
            self._results.values_of("gauge", "users").add(end_ns, float(int(users)))
        failure = _failure(sample) if sample["success"].lower() != "true" else ""
        part = self._results.label("name", sample.get("label", ""))
        thread = sample.get("threadName", "")
        if is_transaction(sample):
            self._add_transaction(start_ns, end_ns, part, failure)
            if self._latest.get(thread, -1) < start_ns:
                self._results.lacks("requests inside of transactions: JMeter was set to write only their parents")
            return
        if int(sample.get("SampleCount") or 1) > 1:
            raise ValueError("it stands for several: run JMeter with mode=StrippedBatch or mode=Standard")
        self._latest[thread] = max(start_ns, self._latest.get(thread, -1))
        if self._figures is None:
            self._figures = self._figures_of(sample)
        unknown = sample.get("responseCode", "").startswith(_NO_STATUS)  # then JMeter writes 0
        self._results.requests_of("http", {_FIGURES[name]: "ms" for name in self._figures}).add(
            start_ns,
            end_ns,
            failure=failure,
            part=part,
            values=[float("nan") if unknown else float(int(sample[name])) for name in self._figures],
        )

    def _figures_of(self, sample: Mapping[str, str]) -> Sequence[str]:
        figures = [name for name in _FIGURES if name in sample]
        if "Latency" not in figures:
            self._results.lacks("when the first byte came: the file has no Latency")
        if "responseMessage" not in sample:
            self._results.lacks(
                "which samples are transactions: the file has no messages, so all count as requests"
            )
        return figures

    def _add_transaction(self, start_ns: int, end_ns: int, name: str, failure: str) -> None:
        values = self._results.values_of("series", "transaction.duration", "ms", {"name": name})
        values.add(end_ns, (end_ns - start_ns) / _NS_PER_MS)
        if failure:
            self._results.values_of("counter", "transactions.failed", "", {"name": name}).add(end_ns, 1.0)

    def _start_ns(self, text: str) -> int:
        if text.isdecimal():
            return ns_of(int(text), _NS_PER_MS)
        self._results.lacks("the time zone of the times: they are read as UTC")
        return unix_ns(text.replace("/", "-"))


def is_transaction(sample: Mapping[str, str]) -> bool:
    """Return whether a sample is a transaction, which JMeter tells by its message only."""
    return sample.get("responseMessage", "").startswith(_TRANSACTION)


def _failure(sample: Mapping[str, str]) -> str:
    status, message = sample.get("responseCode", ""), sample.get("responseMessage", "")
    if status.isdecimal() and int(status) >= _FIRST_ERROR:
        return f"status {status}"
    reason = sample.get("failureMessage", "").strip()
    if reason and not status.startswith(_NO_STATUS):
        return reason.splitlines()[0]
    if status.isdecimal():
        return f"failed with status {status}"
    return ": ".join(filter(None, (status.removeprefix(_NO_STATUS), message.removeprefix(_NO_MESSAGE)))) or "failed"


def _read_xml(file: ResultFile, samples: _Samples) -> None:
    """Read XML piece by piece. Raises ValueError for a file with a document type, which could have entities."""
    nested: list[dict[str, str] | None] = []  # None: an element that is no sample
    texts: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        is_sample = tag in _SAMPLES or "ts" in attributes
        sample = {_IN_XML.get(name, name): value for name, value in attributes.items()}
        nested.append(sample if is_sample else None)
        parser.CharacterDataHandler = texts.append if tag == "failureMessage" else None

    def end(tag: str) -> None:
        sample, outer = nested.pop(), (sample for sample in reversed(nested) if sample is not None)
        if sample is not None and all(map(is_transaction, outer)):
            samples.add(sample)
        elif tag == "failureMessage":
            next(outer, {}).setdefault("failureMessage", "".join(texts))
        texts.clear()
        parser.CharacterDataHandler = None

    def refuse(*_: object) -> None:
        raise ValueError("it has a document type, which JMeter does not write")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        with file.open() as data:
            parser.ParseFile(data)
    except expat.ExpatError as error:
        raise ValueError(str(error)) from error
