"""The exceptions of the package, grouped by who has to act.

    TelemetryError
    ├── UsageError          the caller: a wrong argument, a wrong command line      exit 2
    │   ├── InstrumentError     a name, label, unit or kind that can't be defined
    │   └── ConfigError         an unknown key or a value of the wrong type
    ├── EndpointError       the operator: an address that can't be bound or reached  exit 1
    │   └── NoRoomError         the operator: no room for this process in the run        exit 1
    ├── KeysError           the operator: a key that is missing, unsafe or refused   exit 1
    ├── ProtocolError       the peer: it speaks another version or broke the wire    exit 1
    ├── RunDirectoryError   the operator: files that can't be read or written        exit 1
    └── RunNotFoundError    the caller: no such run                                  exit 1

A message says what happened; `hint` says what to do about it.
"""

from __future__ import annotations


class TelemetryError(Exception):
    """The base of all errors raised on purpose. `str(error)` is one line, hint included."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(TelemetryError):
    """The call itself is wrong; repeating it can't help."""

    exit_code = 2


class InstrumentError(UsageError):
    """An instrument can't be defined: name, labels, unit, kind or bounds."""


class ConfigError(UsageError):
    """A configuration key is unknown or its value has the wrong type."""


class EndpointError(TelemetryError):
    """An address can't be bound or reached, or does not belong to an aggregator."""


class NoRoomError(EndpointError):
    """The run accepts no more producers, or this process has no descriptors left, so it can't join."""


class KeysError(TelemetryError):
    """A key is missing, can be read by others, or is not known to the peer."""


class ProtocolError(TelemetryError):
    """A peer speaks an incompatible version, or sent a message that the protocol forbids."""


class RunDirectoryError(TelemetryError):
    """A file of a run can't be written or read."""


class RunNotFoundError(TelemetryError):
    """The given name, id or directory matches no run."""


def error_text(error: BaseException) -> str:
    """Return the class and the message of an exception, and only the class if the message is empty."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")
