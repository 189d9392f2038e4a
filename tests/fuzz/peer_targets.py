"""Fuzz targets for the input from other programs.

These scrape a run, answer as a receiver, or are the command that a run wraps.
"""

from __future__ import annotations

import gzip
import io
import re
from email.message import Message
from functools import cache
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, cast
from urllib.error import HTTPError

from msgspec.structs import replace
from tests.fuzz import valid
from tests.fuzz.target import Target, refused
from tests.fuzz.text_forms import Http, Terminal

from telemetry.backends.backend import Unavailable
from telemetry.backends.items import Live
from telemetry.backends.otlp import http as otlp_http
from telemetry.backends.otlp import receiver
from telemetry.backends.otlp.receiver import KeyRefused, NotTaken, Taken
from telemetry.backends.prometheus import backend as backend_module
from telemetry.backends.prometheus import formats
from telemetry.backends.prometheus.backend import PrometheusBackend, PrometheusOptions
from telemetry.tui.feed import local_files
from telemetry.tui.model import log

# --- who scrapes ---------------------------------------------------------------------------------

_ACCEPT: Final = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7",
    'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version="0.0.4";q=0.5,*/*;q=0.1',
    "text/html,*/*;q=0.8",
)
_MEDIA: Final = {
    formats.OPENMETRICS.content_type: "openmetrics",
    formats.PROTOBUF.content_type: "protobuf",
    formats.PLAIN.content_type: "",
}
_STATUS: Final = re.compile(rb"HTTP/1\.0 (\d{3}) [^\r\n]*\r\n")


class _Connection:
    """Has sent these bytes, and takes all."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.taken = bytearray()

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def makefile(self, mode: str, buffering: int) -> io.BytesIO:
        return io.BytesIO(self._data)

    def sendall(self, data: bytes) -> None:
        self.taken += data


@cache
def _backend() -> PrometheusBackend:
    made = PrometheusBackend(PrometheusOptions(), Path())
    ended = replace(valid.small_snapshot(), counters=valid.short_snapshot().counters)
    made.write([Live(key="s", time_ns=0, snapshot=ended)])
    return made


@cache
def _handler() -> Any:
    return type("_Handler", (backend_module._Handler,), {"page": staticmethod(_backend()._page)})


def run_scrape(data: bytes) -> int:
    """One answer at most, whole, in a format that was asked for; only the page counts as scraped."""
    backend, connection = _backend(), _Connection(data)
    backend._scraped.clear()
    _handler()(connection, ("127.0.0.1", 1), None)
    answer = bytes(connection.taken)
    chosen = formats.choose(data.decode("latin-1"))
    assert _MEDIA[chosen.content_type] in data.decode("latin-1").lower()
    _check_answer(answer, backend)
    return 1


def run_accept(data: bytes) -> int:
    """The best of what is named, and text for who names nothing that is known."""
    text = data.decode("latin-1")
    assert _MEDIA[formats.choose(text).content_type] in text.lower()
    return 1


def _check_answer(answer: bytes, backend: PrometheusBackend) -> None:
    found = _STATUS.match(answer)
    if found is None:  # HTTP/0.9 has no head; who has said nothing is told nothing
        refused(ValueError("no status"))
        return
    refused(ValueError(HTTPStatus(int(found[1])).phrase))
    head, _, body = answer[found.end() :].partition(b"\r\n\r\n")
    if found[1] != b"200":
        assert not backend._scraped.is_set()
        return
    headers = parse_headers(io.BytesIO(head + b"\r\n\r\n"))
    assert headers["Content-Length"] == str(len(body))
    if headers["Content-Encoding"] == "gzip":
        body = gzip.decompress(body)
    page = backend._bodies.get(headers["Content-Type"]) if backend._scraped.is_set() else _index()
    assert body == page


def _index() -> bytes:
    return f"a run of telemetry: {backend_module.PATH}\n".encode()


def _scrapes() -> list[bytes]:
    heads = [f"Accept: {accept}\r\nAccept-Encoding: gzip\r\nHost: h:9599\r\n" for accept in _ACCEPT]
    paths = ("/metrics", "/metrics?a=b", "/", "/other")
    asked = [f"GET {path} HTTP/1.1\r\n{head}\r\n" for path, head in zip(paths, [*heads, ""], strict=True)]
    return [
        *map(str.encode, asked),
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"GET /metrics\r\n",
        b"POST /metrics HTTP/1.1\r\n\r\n",
    ]


# --- what a receiver answers ---------------------------------------------------------------------

_NOW_S: Final = 1.7e9


@cache
def _protobuf() -> bool:
    """Load the protobuf library and return whether it is here."""
    try:
        return all(receiver.answer_type(signal) for signal in ("metrics", "traces"))  # type: ignore[arg-type]
    except ImportError:
        return False


def run_otlp(data: bytes) -> int:
    """`code`, headers and a body: it is taken, or one of three things is wrong, in words and for a bounded time."""
    _protobuf()
    first, _, rest = data.partition(b"\r\n")
    stream = io.BytesIO(rest)
    try:
        headers = parse_headers(stream)
    except (HTTPException, ValueError):  # the standard library's, before we are asked
        return 1
    code = int(first) if first.isdigit() and len(first) == 3 else 200
    if code < 300:
        _check_taken(stream.read(), headers)
        return 1
    with HTTPError("http://h", code, first.decode("latin-1"), headers, stream) as told:
        error = otlp_http._meant(told)
    refused(error)
    assert isinstance(error, Unavailable | KeyRefused | NotTaken)
    assert str(error).isprintable()
    if isinstance(error, Unavailable):
        assert 0.0 <= error.after_s <= otlp_http._RETRY_MOST_S
    assert 0.0 <= otlp_http.retry_after_s(headers.get("Retry-After", ""), _NOW_S) <= otlp_http._RETRY_MOST_S
    return 1


def _check_taken(body: bytes, headers: Message) -> None:
    kind = headers.get("Content-Type", "")
    if not _protobuf() and kind.startswith(otlp_http._TYPE):
        return
    for signal in ("metrics", "traces"):
        found = otlp_http._taken(signal, body, kind)  # type: ignore[arg-type]
        assert isinstance(found, Taken)
        assert found.rejected >= 0
        refused(ValueError(found.words))


def _answers() -> list[bytes]:
    taken = b"200\r\nContent-Type: application/x-protobuf\r\n\r\n"
    away = b"503\r\nRetry-After: 7\r\nContent-Type: text/plain\r\n\r\nnot now"
    return [
        taken + b"\x0a\x02\x08\x05",
        taken + b"\x0a\x05\x12\x03why",
        taken,
        b"200\r\nContent-Type: application/json\r\n\r\n{}",
        away,
        b"429\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n",
        b'401\r\nContent-Type: application/json\r\n\r\n{"message": "no"}',
        b"413\r\n\r\n",
    ]


# --- what a command writes -----------------------------------------------------------------------


def run_output(data: bytes) -> int:
    """However it comes, the same lines are shown, each within bounds and with nothing that moves a cursor."""
    whole, in_pieces = _followed(data), _followed(data[: len(data) // 2], data[len(data) // 2 :])
    assert whole == in_pieces
    assert len(whole) <= local_files.LINES + 1
    for line in whole:
        shown = log.plain_text.__wrapped__(line)
        assert shown.isprintable()
        assert len(shown) <= log._LINE_CHARS
    return 1


def _followed(*pieces: bytes) -> list[str]:
    """Return the lines that a viewer reads with one look after each piece."""
    tail, file = local_files.OutputTail(Path()), _output_file()
    file.seek(0)
    file.truncate()
    for piece in pieces:
        at = file.tell()
        file.write(piece)
        file.seek(at)
        tail._take(file)
    return [*tail._lines, *([local_files._shown(tail._rest)] if tail._rest else [])]


@cache
def _output_file() -> FileIO:
    return cast(FileIO, TemporaryFile(buffering=0))


_OUTPUT: Final = (
    b"plain\nlines\n\nwithout an end",
    b"10 %\r 50 %\r100 %\r\n\tdone\n",
    b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \x1b(B\x1b7\n",
    "漢字 é 👩\u200d👩\n".encode(),
)


TARGETS: Final = (
    Target(
        name="scrape",
        run=run_scrape,
        form=Http(),
        seeds=_scrapes,
        covers=(backend_module._Handler, formats),
        head=b"GET /metrics HTTP/1.1\r\nAccept: ",
        bytes_each=400,
        share=0.2,
    ),
    Target(
        name="accept",
        run=run_accept,
        form=Http(),
        seeds=lambda: [accept.encode() for accept in _ACCEPT],
        covers=(formats,),
        head=b"text/plain;q=",
        bytes_each=400,
    ),
    Target(
        name="otlp",
        run=run_otlp,
        form=Http(),
        seeds=_answers,
        covers=(otlp_http._taken, otlp_http._meant, otlp_http.retry_after_s, otlp_http._words, receiver.taken),
        head=b"503\r\nRetry-After: ",
        bytes_each=400,
    ),
    Target(
        name="output",
        run=run_output,
        form=Terminal(),
        seeds=lambda: _OUTPUT,
        covers=(local_files.OutputTail._take, local_files._shown, log.plain_text.__wrapped__),
        head=b"\x1b",
        bytes_each=400,
    ),
)
