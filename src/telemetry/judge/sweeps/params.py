"""Parameters on a command line: `concurrency=4` of one run, `concurrency=1,2,4,8` of a sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Final

from telemetry import limits
from telemetry.common.formatting import number_of, printable
from telemetry.errors import UsageError
from telemetry.wire.events import Scalar

_VARIABLE: Final = "TELEMETRY_PARAM_"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_INTEGER: Final = re.compile(r"-?(0|[1-9]\d{0,15})", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_BRACES: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")

Values = Mapping[str, str]
"""Parameter → value, as written on the command line."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a sweep with its values."""

    name: str
    values: tuple[str, ...]


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` of each text. Values stay texts. Raises UsageError."""
    assignments: dict[str, str] = {}
    for text in texts:
        name, value = _pair(text, "concurrency=4")
        if name in assignments:
            raise UsageError(f"parameter {name} is given twice", hint="remove one --param")
        assignments[name] = value
    variables(assignments)
    return assignments


def parse_parameters(texts: Iterable[str]) -> list[Parameter]:
    """Parse `NAME=VALUE,VALUE,…` of each text. Raises UsageError."""
    parameters: list[Parameter] = []
    for text in texts:
        name, values = _pair(text, "concurrency=1,2,4,8")
        value_texts = tuple(word.strip() for word in values.split(","))
        if not all(value_texts):
            raise UsageError(f"{text!r} has an empty value", hint="write --param concurrency=1,2,4,8")
        if any(name == parameter.name for parameter in parameters):
            raise UsageError(f"parameter {name} is given twice", hint=f"write all values in one --param {name}=…")
        if len({scalar(word) for word in value_texts}) < len(value_texts):
            raise UsageError(f"{text!r} has a value twice", hint="--repeat N runs each value N times")
        parameters.append(Parameter(name, value_texts))
    if not parameters:
        raise UsageError("no parameter to sweep over", hint="add --param NAME=VALUE,VALUE,…")
    variables(parameter.name for parameter in parameters)
    return parameters


def combinations(parameters: Sequence[Parameter]) -> list[dict[str, str]]:
    """Return all combinations of values; those of the last parameter change fastest. Raises UsageError."""
    number = math.prod(len(parameter.values) for parameter in parameters)
    if number > limits.SWEEP_RUNS:
        raise UsageError(
            f"these parameters have {number_of(number, 'combination')}",
            hint=f"give values with at most {limits.SWEEP_RUNS:,} combinations",
        )
    names = [parameter.name for parameter in parameters]
    return [
        dict(zip(names, values, strict=True)) for values in product(*(parameter.values for parameter in parameters))
    ]


def filled(arguments: Sequence[str], values: Values) -> list[str]:
    """Replace `{NAME}` in each word. `{{NAME}}` becomes `{NAME}`; other braces stay."""
    return [_filled(word, values) for word in arguments]


def check_used(arguments: Sequence[str], names: Sequence[str]) -> None:
    """Raise UsageError for a parameter that no word has, neither as `{NAME}` nor as the name of its variable."""
    written = {match[1] for word in arguments for match in _BRACES.finditer(word) if not _is_doubled(word, match)}
    for name in names:
        if name in written or any(variable(name) in word for word in arguments):
            continue
        near = get_close_matches(name, written - set(names), n=1)
        meant = f"{{{near[0]}}} is not a parameter: " if near else ""
        raise UsageError(
            f"the command does not use parameter {name}",
            hint=f"{meant}write {{{name}}} in one of its arguments, or add --env if it reads {variable(name)}",
        )


def variables(names: Iterable[str]) -> dict[str, str]:
    """Return the environment variable of each name. Raises UsageError if two names have the same one."""
    variable_by_name: dict[str, str] = {}
    for name in names:
        own = variable(name)
        for other, taken in variable_by_name.items():
            if own == taken:
                raise UsageError(f"parameters {other} and {name} have the same variable {own}", hint="rename one")
        variable_by_name[name] = own
    return variable_by_name


def variable(name: str) -> str:
    """Return the environment variable that has the value of a parameter."""
    return _VARIABLE + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def scalar(text: str) -> Scalar:
    """Return a number if the text is one, else the text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def told(values: Mapping[str, Scalar]) -> str:
    """Describe values: `concurrency = 4, batch = 32`."""
    return ", ".join(f"{printable(name)} = {printable(value_text(value))}" for name, value in values.items())


def value_text(value: Scalar) -> str:
    """Return a value as it is written on a command line."""
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _pair(text: str, such_as: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not value.strip():
        raise UsageError(f"{text!r} is not a parameter with a value", hint=f"write --param {such_as}")
    if not _NAME.fullmatch(name) or len(name) > limits.NAME_CHARS:
        raise UsageError(f"{name[:40]!r} is not a valid name of a parameter", hint=f"write --param {such_as}")
    if len(value) > limits.TEXT_CHARS:
        raise UsageError(f"the value of parameter {name} has more than {limits.TEXT_CHARS:,} characters")
    return name, value.strip()


def _filled(word: str, values: Values) -> str:
    parts, end = [], 0
    for match in _BRACES.finditer(word):
        if match[1] not in values:
            continue
        doubled = _is_doubled(word, match)
        start, stop = (match.start() - 1, match.end() + 1) if doubled else match.span()
        parts += [word[end:start], match[0] if doubled else values[match[1]]]
        end = stop
    return "".join([*parts, word[end:]])


def _is_doubled(word: str, match: re.Match[str]) -> bool:
    return word[: match.start()].endswith("{") and word[match.end() :].startswith("}")
