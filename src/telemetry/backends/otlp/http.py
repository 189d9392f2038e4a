"""OTLP over HTTP: a POST for each request."""

from __future__ import annotations

import gzip
import http.client
import ssl
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Any, Final

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.otlp.receiver import KeyRefused, NotTaken, OtlpTarget, Signal, Taken, answer_type, taken
from telemetry.common.formatting import printable
from telemetry.store.append_file import describe

_TYPE: Final = "application/x-protobuf"
_ANSWER_BYTES: Final = 1 << 20
_WORDS_CHARS: Final = 300
_COMPRESSION: Final = 1
_PASSING: Final = (408, 429, 502, 503, 504)
_NOBODY: Final = (404, 405)
_RETRY_MOST_S: Final = 3_600.0


class HttpSender:
    """A sender over HTTP.

    Proxies come from the environment. Redirects are errors: they would turn a POST into a GET.
    """

    def __init__(self, target: OtlpTarget) -> None:
        """Prepare TLS. Raises NotConfigured for an unreadable certificate."""
        self._target = target
        handlers: list[urllib.request.BaseHandler] = [_Here()]
        if target.secure:
            try:
                context = ssl.create_default_context(cafile=target.certificate or None)
            except OSError as error:
                raise NotConfigured(f"otlp: can't read {target.certificate}: {describe(error)}") from error
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def send(self, signal: Signal, request: Any) -> Taken:
        body = gzip.compress(request.SerializeToString(), _COMPRESSION)
        headers = {"Content-Type": _TYPE, "Content-Encoding": "gzip", "User-Agent": "telemetry"}
        post = urllib.request.Request(self._target.urls[signal], body, headers | self._target.headers)
        try:
            with self._opener.open(post, timeout=self._target.timeout_s) as answer:
                return _taken(signal, answer.read(_ANSWER_BYTES), answer.headers.get("Content-Type", ""))
        except urllib.error.HTTPError as error:
            with error:
                raise _meant(error) from error
        except urllib.error.URLError as error:
            why = error.reason
            if isinstance(why, ssl.SSLCertVerificationError):
                message = f"its certificate is not trusted: {why.verify_message}"
                raise KeyRefused(message, "set OTEL_EXPORTER_OTLP_CERTIFICATE") from error
            message = describe(why) if isinstance(why, OSError) else str(why)
            raise Unavailable(printable(message)) from error
        except (OSError, http.client.HTTPException) as error:
            message = describe(error) if isinstance(error, OSError) else type(error).__name__
            raise Unavailable(printable(message)) from error

    def close(self) -> None:
        """Return at once: each request has its own connection."""


class _Here(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _taken(signal: Signal, body: bytes, content_type: str) -> Taken:
    """Read an answer. Some receivers answer with an empty body or JSON."""
    if not content_type.startswith(_TYPE):
        return Taken()
    from google.protobuf.message import DecodeError

    try:
        return taken(signal, answer_type(signal).FromString(body))
    except DecodeError:
        return Taken(0, "its answer is unreadable")


def _meant(error: urllib.error.HTTPError) -> Exception:
    message = f"HTTP {error.code}: {_words(error)}"
    if error.code in _PASSING or (error.code >= 500 and error.code != 501):
        return Unavailable(message, retry_after_s(error.headers.get("Retry-After", ""), time.time()))
    if error.code in (401, 403):
        return KeyRefused(message)
    return NotTaken(
        f"http_{error.code}", message, too_large=error.code == 413, unknown=error.code in (*_NOBODY, 501)
    )


def retry_after_s(header: str, now_s: float) -> float:
    """Parse a Retry-After header in seconds or as a date. Returns 0 if it is neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now_s
        except (ValueError, OverflowError):
            return 0.0
    return min(seconds, _RETRY_MOST_S) if seconds > 0.0 else 0.0


def _words(error: urllib.error.HTTPError) -> str:
    """Return the body of an error if it is text, else the reason."""
    kind = error.headers.get("Content-Type", "")
    try:
        body = error.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        body = b""
    text = body.decode("utf-8", "replace") if kind.startswith(("text/plain", "application/json")) else ""
    return printable(" ".join(text.split())[:_WORDS_CHARS]) or printable(str(error.reason))
