"""Text that people and programs write: conditions, options, heads of HTTP, output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.fuzz.forms import Chance, Form, Span, pick


class Text(Form):
    """Words and signs."""

    wraps: Sequence[tuple[bytes, bytes]] = ((b'"', b'"'), (b"-", b""), (b"", b"0" * 30), (b" ", b" "), (b"\\", b""))
    token = rb"[\w.-]+|\s+|."

    def __init__(self) -> None:
        super().__init__()
        self._token = re.compile(self.token, re.DOTALL)

    def find_spans(self, data: bytes) -> Sequence[Span]:
        return [match.span() for match in self._token.finditer(data)]

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        """The piece in quotes, or with something before or behind it."""
        start, end = span
        before, after = pick(chance, self.wraps)
        return data[:start] + before + data[start:end] + after + data[end:]


_ODD: Final = (
    *(b"", b" ", b"\n", b"\t", b"\0", b"\r\n", b"\x1b[2J", b"\xff", b"\x85", b"\xed\xa0\x80", b"\xe2\x80\xae"),
    *map(str.encode, ("≤", "é", "e\u0301", "漢", "\u0661", "µs", "²", "\u00a0", "\u2028", "👩\u200d")),
)


class GateText(Text):
    """The text of a condition."""

    wraps = ((b"(", b")"), (b'"', b'"'), (b"-", b""), (b"p99(", b")"), (b"", b" "), (b"{", b"}"))
    token = rb'"(?:[^"\\]|\\.)*"|\d[\d.]*|[<>=!]+|[^\W\d][\w.]*|\S'
    treasures = (
        *_ODD,
        *b'< <= >= == != => = <> + - * / ( ) { } {} {a=b} {a="b",c=d} {a=b,a=c} " "a" "" \\'.split(),
        *b"0 1 250ms 5% 1/s 2MiB/s 1e999 1e308 1e-400 1e308h 7M 1ns 1h 1e18h 0s 1s 0.5s 30s 2GiB 4parsec".split(),
        *b"p99(latency) p0(a) p100(size) p099.900(size) p1000(a) p50.12345678(a) p(a) p. median(a) avg sum".split(),
        *b"sum(q.failed) value(q.issued) throughput(q.latency) throughput.overall(q.latency{window=w})".split(),
        *b"rate(requests) value(queue) mean(size) total(latency) min(queue) max(size) count(latency)".split(),
        *b"lost elapsed emitted command.exit_code completeness complete lossy baseline in every".split(),
        *(b"5 %", b"1 k", b"in every", b"in every 1s", b"in every 2s", b"in every 1e300s", b"in every 2.5s"),
        *(sign * times for sign in (b"(", b"-", b"1+", b"1/") for times in (30, 64, 300)),
        *(b"(" * depth + b"1" + b")" * depth for depth in (30, 63, 300)),
        *(b"lost" + b"/lost" * depth for depth in (8, 63)),
        *(b"9" * 400, b"0." + b"0" * 99, b"x" * 1_001, b"0*", b"1e300*", b"/1e-300", b"/0", b"- lost"),
    )


class Options(Text):
    """A backend and its options."""

    treasures = (
        *_ODD,
        *rb": , = \ \\ \, as= as=a as=.. as=a/b ,as=x ,as=x,as=y api_key=1 token=a port=0 port=65536".split(),
        *b"jsonl console prometheus wandb none port=1e3 linger=nan linger=inf linger=1e400 yes {} [] null".split(),
        *(b"9" * 5_000, b"x" * 300),
    )


class Http(Text):
    """Lines of a request or an answer, and what follows."""

    treasures = (
        *_ODD,
        *b"\r\n\r\n|\r|: |;|,|=|/|//|?|%2e|*| \tfolded|Accept: |Accept: */*\r\n|Expect: 100-continue\r\n".split(
            b"|"
        ),
        *b"GET|HEAD|HTTP/1.1|HTTP/0.9|HTTP/2.0|HTTP/1.999999|HTTP/|/metrics|http://h/metrics|gzip|identity".split(
            b"|"
        ),
        *b"q=0|q=nan|q=inf|q=-1|q=1e999|q=1_0|q=|q=\xb2|version=1.0.0|version=9|text/plain|text/*|*/*".split(b"|"),
        *(b"application/openmetrics-text", b"application/vnd.google.protobuf", b"application/x-protobuf"),
        *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Retry-After: ", b"Content-Type: "),
        *b"200|503|429|401|413|999|100|1e999|-5|nan|3|-0000|+9999|31 Dec 9999 23:59:59 -2359".split(b"|"),
        *b"Wed, 21 Oct 2015 07:28:00 GMT|1 Jan 1 00:00:00 +0000|1 Jan 99999 00:00:00 GMT".split(b"|"),
        *(b"1 Jan 1970 00:00:00 +99999999999", b"9" * 5_000, b"A: b\r\n" * 101),
        *(b"," * 5_000, b";" * 3_000, b"text/*;q=1," * 400),
    )


class Terminal(Text):
    """Output that a program writes to a terminal."""

    token = rb"\x1b.[\d;]*.?|[\w.]+|."
    treasures = (
        *_ODD,
        *(
            b"\r",
            b"\x1b",
            b"\x1b[",
            b"\x1b[2J",
            b"\x1b[?25l",
            b"\x1b]0;",
            b"\x07",
            b"\x1b\\",
            b"\x1bP",
            b"\x1b(B",
            b"\x9b",
        ),
        *(b"\x1b[" + b"0;" * 4_000, b"\x1b[" + b" " * 4_000, b"\x1b]" * 3_000, b"\x1b(" * 3_000, b"\x1b" * 3_000),
        *(b"\t" * 5_000, b"\r" * 5_000, b"\n" * 1_200, b"a\rb\r" * 1_500, b"x" * 4_096, b"\xe6\xbc\xa2" * 2_000),
    )
