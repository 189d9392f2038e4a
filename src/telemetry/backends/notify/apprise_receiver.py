"""Receivers behind Apprise. Only this module imports it, on demand, and only in processes of their own."""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from telemetry.backends.backend import NotConfigured, missing
from telemetry.backends.notify.message import Message
from telemetry.common.formatting import printable
from telemetry.config.notify_urls import masked

EXTRA: Final = "notify"
_NAME: Final = "telemetry"
_TIMEOUT_S: Final = 15.0  # of one notification, where the version of Apprise has such a bound
_PIECES: Final = re.compile(r"[\s/:@?&=,;#+]+")
_SECRET_CHARS: Final = 4
"""Shortest part of an address that is masked in an error."""
_REASON_CHARS: Final = 200
_LOGGER: Final = "apprise"
_UNKNOWN: Final = "Apprise has no such service, or the address lacks a part"
_UNREADABLE: Final = ("Unparseable", "Unsupported")
"""First words of the library about an address of no service."""


class AppriseReceiver:
    """One receiver. `instance` is an `apprise.Apprise` with its service alone."""

    def __init__(self, url: str, instance: Any) -> None:
        self.label = masked(url)
        self._url = url
        self._instance = instance

    def send(self, message: Message) -> str:
        with _library_log() as messages:
            try:
                delivered = self._instance.notify(
                    title=message.title, body=message.body_at(time.time_ns()), notify_type=message.look
                )
            except Exception as error:  # noqa: BLE001 – a plug-in of Apprise may raise anything
                messages.append(f"{type(error).__name__}: {error}")
                delivered = False
        return (
            ""
            if delivered
            else scrubbed(messages[0] if messages else "it did not take the notification", self._url)
        )


def receivers(urls: Sequence[str]) -> list[AppriseReceiver]:
    """Return the receivers of these addresses. Raises NotConfigured for a wrong address or without Apprise."""
    result: list[AppriseReceiver] = []
    for url in urls:
        instance, reason = _instance(url)
        if instance is None:
            raise NotConfigured(f"{masked(url)}: {reason}", hint="docs/NOTIFICATIONS.md has examples")
        result.append(AppriseReceiver(url, instance))
    return result


def problems(urls: Sequence[str]) -> list[tuple[int, str]]:
    """Return the numbers of invalid addresses, with the reason. Raises NotConfigured without Apprise."""
    return [(number, why) for number, url in enumerate(urls) if (why := _instance(url)[1])]


def scrubbed(text: str, url: str) -> str:
    """Return a text of the library without any part of the address, in one line."""
    _, _, rest = url.partition("://")
    pieces = {piece for part in (rest, unquote(rest)) for piece in _PIECES.split(part)}
    text = text.replace(url, masked(url))
    for piece in sorted((piece for piece in pieces if len(piece) >= _SECRET_CHARS), key=len, reverse=True):
        text = text.replace(piece, "***")
    return printable(" ".join(text.split()))[:_REASON_CHARS].rstrip(".")


def _instance(url: str) -> tuple[Any, str]:
    """Return Apprise with this service, or None and the reason."""
    try:
        import apprise
    except ImportError as error:
        raise missing("apprise", EXTRA, error) from error
    with _library_log() as messages:
        try:
            instance = apprise.Apprise(asset=_asset(apprise))
            if url.strip() and instance.add(url):
                return instance, ""
        except Exception as error:  # noqa: BLE001 – a plug-in of Apprise may raise anything
            messages.append(f"{type(error).__name__}: {error}")
    return None, _UNKNOWN if not messages or messages[0].startswith(_UNREADABLE) else scrubbed(messages[0], url)


def _asset(apprise: Any) -> Any:
    """Return the settings of Apprise: it writes no files, and its log shows no secrets."""
    parameters = inspect.signature(apprise.AppriseAsset.__init__).parameters
    wanted = {"service_timeout": _TIMEOUT_S, "storage_mode": apprise.PersistentStoreMode.MEMORY}
    return apprise.AppriseAsset(
        app_id=_NAME,
        app_desc=_NAME,
        async_mode=False,
        secure_logging=True,
        **{name: value for name, value in wanted.items() if name in parameters},
    )


class _Messages(logging.Handler):
    """A handler that keeps messages in memory. The log of the library reaches no file and no stream."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def _library_log() -> Iterator[list[str]]:
    """Keep the library's warnings and errors inside the block, and hide those of the libraries below it."""
    handler = _Messages()
    library, root = logging.getLogger(_LOGGER), logging.getLogger()
    if not root.handlers:  # without a handler, Python prints warnings to stderr, which is the writer's log
        root.addHandler(logging.NullHandler())
    library.addHandler(handler)
    propagates, library.propagate = library.propagate, False
    try:
        yield handler.texts
    finally:
        library.removeHandler(handler)
        library.propagate = propagates
