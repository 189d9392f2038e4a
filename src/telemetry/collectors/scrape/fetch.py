"""One page over HTTP, within a time and a size. The connection stays open for the next page. No proxy is used."""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit

from telemetry import limits
from telemetry.common import distribution
from telemetry.common.formatting import printable
from telemetry.errors import EndpointError, error_text

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_ACCEPT: Final = "text/plain;version=0.0.4, */*;q=0.1"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 3
_CHUNK_BYTES: Final = 256 * limits.KIB
_PATH: Final = "/metrics"
_PORTS: Final = {"http": 80, "https": 443}


class FetchError(EndpointError):
    """A page can't be fetched now."""


@dataclass(frozen=True)
class Fetched:
    """An answer of a server."""

    body: bytes
    content_type: str
    seconds: float
    """Time from the request to the last byte."""


def normal_url(text: str) -> str:
    """Return the full address for `HOST:PORT`, `http://HOST:PORT` or a full address. Raises ValueError."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in _PORTS:
        raise ValueError(f"the scheme is {parts.scheme}, must be http or https")
    if not parts.hostname or any(char.isspace() or not char.isprintable() for char in text):
        raise ValueError("it has no host")
    parts.port  # noqa: B018  raises ValueError for a port that is no number
    return urlunsplit(parts._replace(path=parts.path or _PATH, fragment=""))


def shown_url(url: str) -> str:
    """Return an address without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def place_of(url: str) -> str:
    """Return host and port of an address, as Prometheus names an instance."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


class Fetcher:
    """The connection to one server. Not thread-safe."""

    def __init__(self, url: str, timeout_s: float, *, token: str = "", verify: bool = True) -> None:
        """Create a fetcher without connecting. `token`: for `Authorization: Bearer`."""
        self.url = url
        self._timeout_s = timeout_s
        self._token = token
        self._verify = verify
        self._connection: http.client.HTTPConnection | None = None
        self._origin = ("", "")

    def fetch(self) -> Fetched:
        """Return the page. Blocks for the timeout at most, without the time of a name lookup. Raises FetchError."""
        begun = time.monotonic()
        deadline_s = begun + self._timeout_s
        url = self.url
        for _ in range(_MOST_REDIRECTS + 1):
            status, headers, body = self._answer(url, deadline_s)
            if status == http.client.OK:
                return Fetched(body, headers.get("Content-Type", ""), time.monotonic() - begun)
            location = headers.get("Location", "") if status in _REDIRECTS else ""
            if not location:
                raise FetchError(_refusal(status), hint=_remedy(status))
            try:
                url = normal_url(urljoin(url, location))
            except ValueError as error:
                raise FetchError(f"it redirects to {printable(location)}: {error}") from error
        raise FetchError(f"it redirects more than {_MOST_REDIRECTS} times")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answer(self, url: str, deadline_s: float) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Return status, headers and body. An idle connection that the server has closed is opened again once."""
        parts = urlsplit(url)
        is_reused = self._reuse(parts)
        try:
            return self._exchange(parts, deadline_s, is_open=is_reused)
        except TimeoutError:
            self.close()
            raise FetchError(f"no answer within {self._timeout_s:g} s") from None
        except FetchError:
            self.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            if not (is_reused and isinstance(error, ConnectionError)):
                raise FetchError(printable(_words(error))) from error
        return self._answer(url, deadline_s)

    def _reuse(self, parts: SplitResult) -> bool:
        """Return whether a connection to this server is open. Otherwise prepare one."""
        origin = (parts.scheme, parts.netloc)
        if self._connection is not None and self._origin == origin:
            return self._connection.sock is not None
        self.close()
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if parts.scheme == "https":
            context = ssl.create_default_context()
            if not self._verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._connection = http.client.HTTPSConnection(host, port, context=context)
        else:
            self._connection = http.client.HTTPConnection(host, port)
        self._origin = origin
        return False

    def _exchange(
        self, parts: SplitResult, deadline_s: float, *, is_open: bool
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._connection
        assert connection is not None
        if not is_open:
            connection.timeout = _left_s(deadline_s)
            connection.connect()
            assert isinstance(connection.sock, socket.socket)
            self._watched = _DeadlineSocket(connection.sock)
            connection.sock = cast(socket.socket, self._watched)
        self._watched.deadline_s = deadline_s
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request("GET", target, headers=self._headers(parts))
        with connection.getresponse() as response:
            body = _body(response)
            if response.will_close:
                self.close()
            return response.status, response.headers, body

    def _headers(self, parts: SplitResult) -> dict[str, str]:
        """Return the headers of a request. The token and the password go to the server of the address alone."""
        headers = {"Accept": _ACCEPT, "User-Agent": f"telemetry/{distribution.version()}"}
        own = urlsplit(self.url)
        if (own.scheme, own.hostname, own.port) != (parts.scheme, parts.hostname, parts.port):
            return headers
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        elif own.username is not None:
            login = f"{unquote(own.username)}:{unquote(own.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        return headers


class _DeadlineSocket:
    """A socket whose operations together end by a deadline: a server that sends a byte a second is cut off too."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.deadline_s = 0.0

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(_left_s(self.deadline_s))
        self._socket.sendall(data)

    def makefile(self, mode: str, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self, self._socket), 64 * limits.KIB)

    def close(self) -> None:
        self._socket.close()


class _Incoming(io.RawIOBase):
    """The bytes that come in. It keeps the socket open until it is closed, as files of sockets do."""

    def __init__(self, watched: _DeadlineSocket, connected: socket.socket) -> None:
        self._watched = watched
        self._socket = connected
        self._file = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._socket.settimeout(_left_s(self._watched.deadline_s))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _body(response: http.client.HTTPResponse) -> bytes:
    """Read the body up to the bound."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limits.SCRAPE_PAGE_BYTES:
            raise FetchError(f"its page is larger than {limits.SCRAPE_PAGE_BYTES // limits.MIB} MiB")
        chunks.append(chunk)
    return b"".join(chunks)


def _refusal(status: int) -> str:
    reason = http.client.responses.get(status, "")
    return f"it answers {status} {reason}".rstrip()


def _remedy(status: int) -> str:
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return "give the name of an environment variable that holds a token: token_env=NAME"
    return "check the path of the page" if status == http.client.NOT_FOUND else ""


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "it closed the connection without an answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return error_text(error)
