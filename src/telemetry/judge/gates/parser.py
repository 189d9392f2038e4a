"""A recursive descent parser from text to `Gate`, without eval.

gate     = sum relation sum ["in" "every" number]  |  word_fact ("==" | "!=") word
relation = "<" | "<=" | ">" | ">=" | "==" | "!="
sum      = product {("+" | "-") product}
product  = factor {("*" | "/") factor}
factor   = "-" factor | "(" sum ")" | number | "baseline" | fact ["(" ")"] | function "(" metric [limit] ")"
limit    = ("<" | "<=" | ">" | ">=") number
number   = digits [unit] ["/s"]
metric   = name ["{" key "=" value {"," key "=" value} "}"]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, cast

from telemetry import limits
from telemetry.common.directions import better_of_name
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.judge.gates import units
from telemetry.judge.gates.functions import BEST, FACTS, FUNCTIONS, SHARE, WORD_FACTS, not_in_windows
from telemetry.judge.gates.lexer import BARE_NAME, Scanner, TextSpan, Token, wrong
from telemetry.judge.gates.tree import (
    BaselineTerm,
    Fact,
    Gate,
    GateMetric,
    Negated,
    Node,
    Number,
    Operation,
    Relation,
    ShareCondition,
    Sign,
    Term,
    Word,
    nodes,
)

_RELATIONS: Final = ("<=", ">=", "==", "!=", "<", ">")
_LIMITS: Final = ("<=", ">=", "<", ">")
_TYPOS: Final = {"=>": ">=", "=<": "<=", "=": "==", "≤": "<=", "≥": ">=", "<>": "!="}
_MEANT: Final = {
    "avg": "mean",
    "average": "mean",
    "median": "p50",
    "med": "p50",
    "maximum": "max",
    "minimum": "min",
    "percentile": "p99",
    "quantile": "p99",
    "n": "count",
    "loss": "lost",
    "dropped": "lost",
    "drops": "lost",
    "duration": "elapsed",
    "time": "elapsed",
    "exit_code": "command.exit_code",
    "rss": "command.max_rss",
    "complete": "completeness",
}
"""Words of other tools → words of this language."""
_PERCENTILE: Final = re.compile(r"p(\d{1,3})(?:\.(\d{1,7}))?", re.ASCII)
_LIKE_PERCENTILE: Final = re.compile(r"p[\d.]+", re.ASCII)
_CALLED: Final = frozenset({"straggler", "straggler.cost"})
"""Facts that may be followed by `()`."""
_RESERVED: Final = ("in", "every", "baseline")


def parse(text: str) -> Gate:
    """Parse a gate.

    Raises UsageError of three lines: problem and expectation, the text, a caret under the error.
    """
    if len(text) > limits.GATE_CHARS:
        raise UsageError(
            f"a gate of {len(text):,} characters is too long", hint=f"the limit is {limits.GATE_CHARS:,}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise wrong(text, TextSpan(error.start, error.end), "these bytes are not valid UTF-8") from None
    return _Parser(text).gate()


def parse_all(texts: Iterable[str]) -> list[Gate]:
    """Parse several gates. Raises UsageError for the first unreadable gate, or for too many gates."""
    gates = [parse(text) for text in texts]
    if len(gates) > limits.GATES:
        raise UsageError(f"{len(gates):,} gates are too many", hint=f"the limit is {limits.GATES}")
    return gates


def near(word: str, candidates: Iterable[str], most: int = 3) -> str:
    """Return a hint such as `; did you mean p99?`, or an empty string."""
    matches = get_close_matches(word, list(candidates), n=most, cutoff=0.6)
    if meant := _MEANT.get(word):
        matches = [meant, *(other for other in matches if other != meant)][:most]
    return f"; did you mean {' or '.join(f'`{printable(item)}`' for item in matches)}?" if matches else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._scan = Scanner(text)
        self._operands = 0

    def gate(self) -> Gate:
        if self._scan.ended:
            raise self._scan.wrong("expected a comparison, such as `p99(latency) < 250ms`, found nothing")
        if fact := next(filter(None, map(self._scan.keyword, WORD_FACTS)), None):
            return self._of_words(fact)
        left = self._sum(baseline=False)
        if not any(isinstance(node, Term | Fact) for node in nodes(left)):
            message = "the left side must contain a measurement, such as `p99(latency)`; put the limit on the right"
            raise wrong(self._text, left.span, message)
        relation = self._relation()
        right = self._sum(baseline=True)
        every = self._every()
        if not self._scan.ended:
            raise self._too_long()
        gate = Gate(left, cast(Relation, relation.text), right, every, self._text)
        if every is not None:
            self._check_windows(gate)
        return gate

    def _of_words(self, fact: Token) -> Gate:
        relation = self._relation()
        if relation.text not in ("==", "!="):
            message = f"`{fact.text}` is a word: compare it only with `==` or `!=`"
            raise wrong(self._text, relation.span, message)
        choices, start = WORD_FACTS[fact.text], self._scan.next_span()
        word = self._scan.word()
        if word is None or word.text not in choices:
            message = f"expected {_choice(choices)}{near(word.text, choices, 1) if word else ''}"
            raise wrong(self._text, word.span if word else start, message)
        if not self._scan.ended:
            raise self._scan.wrong(f"expected the end, found {self._scan.found()}")
        right = Word(word.text, word.span)
        return Gate(Fact(fact.text, fact.span), cast(Relation, relation.text), right, None, self._text)

    def _relation(self) -> Token:
        for typo, meant in _TYPOS.items():
            if self._scan.begins(typo) and not self._scan.begins("=="):
                span = TextSpan(self._scan.at, self._scan.at + len(typo))
                raise self._scan.wrong(f"`{typo}` is not a comparison; did you mean `{meant}`?", span)
        relation = self._scan.symbol(*_RELATIONS)
        if relation is None:
            raise self._scan.wrong(f"expected a comparison ({', '.join(_RELATIONS)}), found {self._scan.found()}")
        return relation

    def _too_long(self) -> UsageError:
        if self._scan.begins(*_RELATIONS, *_TYPOS):
            return self._scan.wrong("a gate has one comparison; write a second gate for the second one")
        if self._scan.begins("every"):
            return self._scan.wrong("expected `in every`, such as `in every 30s`, found `every`")
        return self._scan.wrong(f"expected the end or `in every 30s`, found {self._scan.found()}")

    def _every(self) -> Number | None:
        if self._scan.keyword("in") is None:
            return None
        if self._scan.keyword("every") is None:
            raise self._scan.wrong(f"expected `every`, such as `in every 30s`, found {self._scan.found()}")
        number = self._number()
        if number is None:
            raise self._scan.wrong(f"expected the length of a window, such as `30s`, found {self._scan.found()}")
        if number.unit not in units.TIMES:
            raise self._scan.wrong("the length of a window must be a time, such as `30s` or `5m`", number.span)
        seconds = every_s(number)
        if seconds < 1 or not seconds.is_integer():
            message = "the history has a resolution of one second, so a window must be 1s, 2s, … long"
            raise self._scan.wrong(message, number.span)
        return number

    def _sum(self, *, baseline: bool) -> Node:
        return self._chain(("+", "-"), lambda: self._product(baseline=baseline))

    def _product(self, *, baseline: bool) -> Node:
        return self._chain(("*", "/"), lambda: self._factor(baseline=baseline))

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        node = operand()
        while sign := self._scan.symbol(*signs):
            right = operand()
            node = Operation(cast(Sign, sign.text), node, right, TextSpan(node.span.start, right.span.end))
        return node

    def _factor(self, *, baseline: bool) -> Node:
        self._operands += 1
        if self._operands > limits.GATE_OPERANDS:
            raise self._scan.wrong(f"the limit is {limits.GATE_OPERANDS} operands per gate")
        if minus := self._scan.symbol("-"):
            inner = self._factor(baseline=baseline)
            return Negated(inner, TextSpan(minus.span.start, inner.span.end))
        if opened := self._scan.symbol("("):
            inner = self._sum(baseline=baseline)
            if self._scan.symbol(")") is None:
                before = f"the `(` at character {opened.span.start + 1}"
                raise self._scan.wrong(f"expected `)` for {before}, found {self._scan.found()}")
            return inner
        if (number := self._number()) is not None:
            return number
        word = self._scan.word()
        if word is None:
            operands = "a number, a figure such as `p99(latency)`, or a fact such as `lost`"
            raise self._scan.wrong(f"expected {operands}, found {self._scan.found()}")
        if not self._scan.begins("("):
            return self._alone(word, baseline=baseline)
        return self._fact_called(word) if word.text in _CALLED else self._term(word)

    def _number(self) -> Number | None:
        digits = self._scan.number()
        if digits is None:
            return None
        unit = self._scan.glued() or self._scan.spaced(units.LITERALS)
        name = unit.text if unit else ""
        if unit and name not in units.LITERALS:
            literals = sorted(units.LITERALS)
            hint = near(name, literals) or f"; units are {', '.join(literals)}"
            raise self._scan.wrong(f"`{name}` is not a unit{hint}", unit.span)
        if self._scan.per_second():
            name += units.PER_SECOND
        number = Number(digits.text, name, TextSpan(digits.span.start, self._scan.at))
        if not math.isfinite(number.value):
            raise self._scan.wrong("this number is too large", digits.span)
        self._scan.skip()
        return number

    def _term(self, word: Token) -> Term:
        function = self._function(word)
        self._scan.symbol("(")
        metric = self._metric()
        condition = self._condition() if function == SHARE else None
        close = self._scan.symbol(")")
        if close is None:
            odd = "" if self._scan.ended or metric.labels else "; put a name with special characters in quotes"
            if (limit := self._scan.symbol(*_RELATIONS)) is not None:
                odd = f"; did you mean `{function}({metric}) {limit.text} …`?"
                self._scan.at = limit.span.start
            raise self._scan.wrong(f"expected `)`, found {self._scan.found()}{odd}")
        if function == BEST and better_of_name(metric.name) == "neither":
            instead = f"`max({metric})` or `min({metric})`"
            message = f"the name does not tell whether a lower or a higher value is better; use {instead}"
            raise wrong(self._text, metric.span, message)
        return Term(function, metric, TextSpan(word.span.start, close.span.end), condition)

    def _condition(self) -> ShareCondition:
        """Return the limit of a share, which each value is compared with."""
        relation = self._scan.symbol(*_LIMITS)
        if relation is None:
            example = "`<`, `<=`, `>` or `>=` and a limit, such as `share(ttft < 200ms)`"
            raise self._scan.wrong(f"expected {example}, found {self._scan.found()}")
        limit = self._number()
        if limit is None:
            raise self._scan.wrong(f"expected a limit such as `200ms`, found {self._scan.found()}")
        return ShareCondition(cast(Relation, relation.text), limit)

    def _fact_called(self, word: Token) -> Fact:
        """Return a fact that is written like a function without arguments."""
        self._scan.symbol("(")
        close = self._scan.symbol(")")
        if close is None:
            raise self._scan.wrong(
                f"`{word.text}` is about the whole run: expected `)`, found {self._scan.found()}"
            )
        return Fact(word.text, TextSpan(word.span.start, close.span.end))

    def _function(self, word: Token) -> str:
        if word.text in FUNCTIONS:
            return word.text
        if not _LIKE_PERCENTILE.fullmatch(word.text):
            message = near(word.text, [*FUNCTIONS, "p50", "p90", "p99", "p99.9"])
            message = message or f"; the functions are {', '.join(FUNCTIONS)} and p50, p99, …"
            raise wrong(self._text, word.span, f"`{word.text}` is not a function{message}")
        match = _PERCENTILE.fullmatch(word.text)
        if match is None:
            message = f"`{word.text}` is not a percentile: write it like p50 or p99.9, with at most 7 decimals"
            raise wrong(self._text, word.span, message)
        fraction = (match[2] or "").rstrip("0")
        key = f"{int(match[1])}.{fraction}" if fraction else f"{int(match[1])}"
        if not 0 < float(key) <= 100:
            raise wrong(
                self._text, word.span, f"`{word.text}` is not a percentile: it must be above 0 and up to 100"
            )
        return f"p{key}"

    def _metric(self) -> GateMetric:
        name = self._scan.name()
        if name is None:
            what = "the name of a metric, in quotes if it has special characters"
            raise self._scan.wrong(f"expected {what}, found {self._scan.found()}")
        if not name.text:
            raise wrong(self._text, name.span, "the name of a metric can't be empty")
        labels = self._labels()
        return GateMetric(name.text, labels, name.span)

    def _labels(self) -> tuple[tuple[str, str], ...]:
        if self._scan.symbol("{") is None:
            return ()
        labels: dict[str, str] = {}
        while True:
            key = self._scan.name()
            if key is None or not key.text:
                raise self._scan.wrong(f"expected a label, such as `route=/fast`, found {self._scan.found()}")
            if key.text in labels:
                raise self._scan.wrong(f"the label `{key.text}` is given twice", key.span)
            if self._scan.symbol("=") is None:
                raise self._scan.wrong(f"expected `=` after the label's name, found {self._scan.found()}")
            value = self._scan.value()
            if value is None:
                raise self._scan.wrong(f"expected the label's value, found {self._scan.found()}")
            labels[key.text] = value.text
            if self._scan.symbol("}"):
                return tuple(sorted(labels.items()))
            if self._scan.symbol(",") is None:
                raise self._scan.wrong(f"expected `,` or `}}` after the label, found {self._scan.found()}")

    def _alone(self, word: Token, *, baseline: bool) -> Node:
        if word.text in FACTS:
            return Fact(word.text, word.span)
        if word.text == "baseline":
            if baseline:
                return BaselineTerm(word.span)
            message = "`baseline` is the left side in another run, so put it on the right"
            raise wrong(self._text, word.span, message)
        if word.text in WORD_FACTS:
            raise wrong(
                self._text, word.span, f"`{word.text}` must stand alone on the left: `{word.text} == complete`"
            )
        if word.text in _RESERVED:
            raise wrong(self._text, word.span, f"expected a number, a figure or a fact, found `{word.text}`")
        if (call := self._without_parentheses(word)) is not None:
            end = len(self._text[: self._scan.at].rstrip())
            raise wrong(self._text, TextSpan(word.span.start, end), call)
        message = near(word.text, [*FACTS, *WORD_FACTS])
        message = message or f"; write a figure of a metric as `p99({word.text})`, `value({word.text})`, …"
        raise wrong(self._text, word.span, f"`{word.text}` is not a fact of a run{message}")

    def _without_parentheses(self, word: Token) -> str | None:
        """Return the error for `p99 latency` and `latency p99`; None for any other word. Reads the second word."""
        if _is_function(word.text):
            if self._scan.ended or (
                not self._scan.begins('"') and BARE_NAME.match(self._text, self._scan.at) is None
            ):
                return f"`{word.text}` is a function: write it with a metric, such as `{word.text}(latency)`"
            return f"`{word.text}` is a function; did you mean `{word.text}({self._metric()})`?"
        other = self._scan.word()
        if other is not None and _is_function(other.text):
            return f"`{other.text}` is a function; did you mean `{other.text}({word.text})`?"
        return None

    def _check_windows(self, gate: Gate) -> None:
        for side in (gate.left, gate.right):
            for node in nodes(side):
                if isinstance(node, Fact):
                    message = f"`{node.name}` is only known for the whole run, not for each window"
                    raise wrong(self._text, node.span, message)
                if isinstance(node, Term) and (why := not_in_windows(node, gate.every)):
                    raise wrong(self._text, node.span, why)


def every_s(number: Number) -> float:
    """Return the length of a window in seconds."""
    unit, _ = units.literal(number.unit)
    return units.converted(number.value, unit, units.unit_of("s"))


def _is_function(word: str) -> bool:
    return word in FUNCTIONS or _PERCENTILE.fullmatch(word) is not None


def _choice(choices: tuple[str, ...]) -> str:
    return f"{', '.join(f'`{word}`' for word in choices[:-1])} or `{choices[-1]}`"
