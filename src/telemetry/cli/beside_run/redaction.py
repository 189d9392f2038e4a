"""The rules for masking from the command line, for all processes that belong to a run."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from telemetry.redaction import Redactor
from telemetry.supervise.spawn import variables

if TYPE_CHECKING:
    from telemetry.config.schema import Config, RedactConfig

FLAGS: Final = {"redact_personal": "redact.personal", "redact_patterns": "redact.patterns"}
"""Command-line names → configuration keys."""
_LABELS: Final = re.compile(r"(\{[^{}]*\})")
_LABEL: Final = re.compile(r"""([^\s{},="]+)=("[^"]*"|[^,{}"]+)""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--redact",
        dest="redact_personal",
        type=_kind,
        default=None,
        metavar="personal",
        help="mask personal data too: e-mail addresses and card numbers; secrets are masked anyway",
    )
    parser.add_argument(
        "--redact-pattern",
        dest="redact_patterns",
        action="append",
        default=None,
        metavar="NAME=REGEX",
        help="mask what this regular expression matches, and count it as NAME; repeatable",
    )


def redactor_of(config: Config) -> Redactor:
    """Return the rules of the settings."""
    redact = config.redact
    return Redactor(secrets=redact.secrets, personal=redact.personal, patterns=redact.patterns)


def masked_gate(text: str, redactor: Redactor) -> str:
    """Return a gate with its names and labels masked, as those of the instruments that it is about."""

    def masked_label(match: re.Match[str]) -> str:
        key, value = match[1], match[2].strip('"')
        ((masked_key, masked),) = redactor.labels({key: value}).items()
        return match[0] if (masked_key, masked) == (key, value) else f'{masked_key}="{masked}"'

    pieces = _LABELS.split(text)
    pieces[::2] = map(redactor.name, pieces[::2])
    pieces[1::2] = (_LABEL.sub(masked_label, piece) for piece in pieces[1::2])
    return "".join(pieces)


@contextmanager
def in_environment(config: RedactConfig) -> Iterator[None]:
    """Give the rules to the processes that are started inside the block."""
    mine = variables(
        {
            "redact.secrets": config.secrets,
            "redact.personal": config.personal,
            "redact.patterns": list(config.patterns) or None,
        }
    )
    before = {name: os.environ.get(name) for name in mine}
    os.environ |= mine
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def _kind(text: str) -> bool:
    if text != "personal":
        raise argparse.ArgumentTypeError("the only choice is: personal")
    return True
