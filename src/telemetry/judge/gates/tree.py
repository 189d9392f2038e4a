"""The tree of a parsed gate. It is frozen and comparable, and its `str` parses to an equal tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from telemetry.judge.gates.lexer import BARE_NAME, BARE_VALUE, TextSpan, quoted

Relation = Literal["<", "<=", ">", ">=", "==", "!="]
Sign = Literal["+", "-", "*", "/"]

_BINDS: Final[dict[Sign, int]] = {"+": 1, "-": 1, "*": 2, "/": 2}
_UNARY: Final = 3


@dataclass(frozen=True)
class Number:
    """A number as it was written, such as `250ms`."""

    digits: str
    unit: str = ""
    span: TextSpan = field(default=TextSpan(), compare=False)

    @property
    def value(self) -> float:
        return float(self.digits)

    def __str__(self) -> str:
        return f"{self.digits}{self.unit}"


@dataclass(frozen=True)
class GateMetric:
    """A name and required labels. The instrument may have more labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """Label pairs, sorted."""
    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        labels = ",".join(f"{_name(key)}={_value(value)}" for key, value in self.labels)
        return f"{_name(self.name)}{{{labels}}}" if labels else _name(self.name)


@dataclass(frozen=True)
class ShareCondition:
    """The condition on each value in `share(ttft < 200ms)`."""

    relation: Relation
    limit: Number

    def __str__(self) -> str:
        return f"{self.relation} {self.limit}"


@dataclass(frozen=True)
class Term:
    """A figure of an instrument, such as `p99(ttft)`."""

    function: str
    metric: GateMetric
    span: TextSpan = field(default=TextSpan(), compare=False)
    condition: ShareCondition | None = None

    @property
    def percentile(self) -> str:
        """The number of a percentile: `99.9` for `p99.9`; empty for other functions."""
        return self.function[1:] if self.function[1:2].isdigit() else ""

    def __str__(self) -> str:
        return f"{self.function}({self.metric}{f' {self.condition}' if self.condition else ''})"


@dataclass(frozen=True)
class Fact:
    """A fact about the run itself, such as `lost`."""

    name: str
    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Word:
    """A word that a fact is compared with, such as `complete`."""

    text: str
    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class BaselineTerm:
    """The value of the left side in the baseline run."""

    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        return "baseline"


@dataclass(frozen=True)
class Negated:
    inner: Node
    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        return f"-{_within(self.inner, _UNARY)}"


@dataclass(frozen=True)
class Operation:
    sign: Sign
    left: Node
    right: Node
    span: TextSpan = field(default=TextSpan(), compare=False)

    def __str__(self) -> str:
        binds = _BINDS[self.sign]
        return f"{_within(self.left, binds)} {self.sign} {_within(self.right, binds + 1)}"


Node = Number | Term | Fact | Word | BaselineTerm | Negated | Operation


@dataclass(frozen=True)
class Gate:
    """A parsed gate. Its `str` parses to an equal gate. `text` is the user's text, for errors."""

    left: Node
    relation: Relation
    right: Node
    every: Number | None = None
    text: str = field(default="", compare=False)

    @property
    def uses_baseline(self) -> bool:
        return any(isinstance(node, BaselineTerm) for node in nodes(self.right))

    @property
    def terms(self) -> list[Term]:
        """The terms of both sides, in order."""
        return [node for side in (self.left, self.right) for node in nodes(side) if isinstance(node, Term)]

    def __str__(self) -> str:
        every = f" in every {self.every}" if self.every else ""
        return f"{self.left} {self.relation} {self.right}{every}"


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, from left to right."""
    yield node
    if isinstance(node, Operation):
        yield from nodes(node.left)
        yield from nodes(node.right)
    elif isinstance(node, Negated):
        yield from nodes(node.inner)


def _within(node: Node, least: int) -> str:
    """Return a node's text, in parentheses if it binds less tightly than `least`."""
    binds = _BINDS[node.sign] if isinstance(node, Operation) else _UNARY
    return str(node) if binds >= least else f"({node})"


def _name(text: str) -> str:
    return text if BARE_NAME.fullmatch(text) else quoted(text)


def _value(text: str) -> str:
    return text if BARE_VALUE.fullmatch(text) else quoted(text)
