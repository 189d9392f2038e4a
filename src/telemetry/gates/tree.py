"""A gate once it has been read: frozen, comparable, and printed as it would be read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from telemetry.gates.lexer import BARE_NAME, BARE_VALUE, Span, quoted

Relation = Literal["<", "<=", ">", ">=", "==", "!="]
Sign = Literal["+", "-", "*", "/"]

_BINDS: Final[dict[Sign, int]] = {"+": 1, "-": 1, "*": 2, "/": 2}
_UNARY: Final = 3


@dataclass(frozen=True)
class Number:
    """`250ms`, as it was written."""

    digits: str
    unit: str = ""
    span: Span = field(default=Span(), compare=False)

    @property
    def value(self) -> float:
        return float(self.digits)

    def __str__(self) -> str:
        return f"{self.digits}{self.unit}"


@dataclass(frozen=True)
class Metric:
    """A name, and labels that an instrument must have; it may have others."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        labels = ",".join(f"{_name(key)}={_value(value)}" for key, value in self.labels)
        return f"{_name(self.name)}{{{labels}}}" if labels else _name(self.name)


@dataclass(frozen=True)
class Term:
    """`p99(ttft)`: a figure of an instrument."""

    function: str
    metric: Metric
    span: Span = field(default=Span(), compare=False)

    @property
    def percentile(self) -> str:
        """`99.9` of `p99.9`; empty for other functions."""
        return self.function[1:] if self.function[1:2].isdigit() else ""

    def __str__(self) -> str:
        return f"{self.function}({self.metric})"


@dataclass(frozen=True)
class Fact:
    """`lost`: something that is known of the run itself."""

    name: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Word:
    """`complete`: what a fact in words is compared with."""

    text: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Baseline:
    """What the left side comes to in the baseline run."""

    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return "baseline"


@dataclass(frozen=True)
class Negated:
    inner: Node
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"-{_within(self.inner, _UNARY)}"


@dataclass(frozen=True)
class Operation:
    sign: Sign
    left: Node
    right: Node
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        binds = _BINDS[self.sign]
        return f"{_within(self.left, binds)} {self.sign} {_within(self.right, binds + 1)}"


Node = Number | Term | Fact | Word | Baseline | Negated | Operation


@dataclass(frozen=True)
class Gate:
    """`str` of one reads back as an equal one. `text` is what the user wrote, for errors."""

    left: Node
    relation: Relation
    right: Node
    every: Number | None = None
    text: str = field(default="", compare=False)

    @property
    def uses_baseline(self) -> bool:
        return any(isinstance(node, Baseline) for node in nodes(self.right))

    @property
    def terms(self) -> list[Term]:
        """Of both sides, in order."""
        return [node for side in (self.left, self.right) for node in nodes(side) if isinstance(node, Term)]

    def __str__(self) -> str:
        every = f" in every {self.every}" if self.every else ""
        return f"{self.left} {self.relation} {self.right}{every}"


def nodes(node: Node) -> Iterator[Node]:
    """It and all below it, from left to right."""
    yield node
    if isinstance(node, Operation):
        yield from nodes(node.left)
        yield from nodes(node.right)
    elif isinstance(node, Negated):
        yield from nodes(node.inner)


def _within(node: Node, least: int) -> str:
    """In parentheses, if it binds less than that."""
    binds = _BINDS[node.sign] if isinstance(node, Operation) else _UNARY
    return str(node) if binds >= least else f"({node})"


def _name(text: str) -> str:
    return text if BARE_NAME.fullmatch(text) else quoted(text)


def _value(text: str) -> str:
    return text if BARE_VALUE.fullmatch(text) else quoted(text)
