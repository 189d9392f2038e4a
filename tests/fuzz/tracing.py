"""A tracer of the project's lines that an input reaches.

It is slow and works without atheris, so it serves for the few inputs that are kept.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from tests.fuzz.target import Listener, Target

import telemetry

_SOURCE: Final = str(Path(telemetry.__file__).parent)
_VARIABLE: Final = re.compile(r"(?:\bb|(?<!\w))(?:'[^']*'?|\"[^\"]*\"?)|\d+|[^\x20-\x7e]+")
_WORD_CHARS: Final = 80

Feature = tuple[str, int, int]
"""(file, line before, line), or (words of a refusal, 0, 0)."""
Line = tuple[str, int]


def kind_of(words: str) -> str:
    """A refusal without what it quotes."""
    return _VARIABLE.sub("#", words)[:_WORD_CHARS]


class Tracer:
    """Collects what `run` reaches."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen: set[Feature] = set()
        self._before: dict[FrameType, int] = {}

    def features(self, data: bytes) -> set[Feature]:
        """Raises what the target raises."""
        self._seen = set()
        self._before = {}
        heard, Listener.hear = Listener.hear, lambda words: self._seen.add((kind_of(words), 0, 0))
        sys.settrace(self._call)
        try:
            self._target.run(data)
        finally:
            sys.settrace(None)
            Listener.hear = heard
        return self._seen

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        self._before[frame] = frame.f_code.co_firstlineno
        return self._line

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self._seen.add((frame.f_code.co_filename, self._before[frame], frame.f_lineno))
            self._before[frame] = frame.f_lineno
        elif event == "return":
            self._before.pop(frame, None)
        return self._line


def worth_keeping(target: Target, inputs: Iterable[bytes], most_bytes: int) -> tuple[list[bytes], set[Feature]]:
    """The inputs that reach something no smaller one does, and all that they reach."""
    tracer = Tracer(target)
    kept: list[bytes] = []
    reached: set[Feature] = set()
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        if len(data) <= most_bytes and (new := tracer.features(data)) - reached:
            kept.append(data)
            reached |= new
    return kept, reached


def lines_of(covers: Sequence[Any]) -> set[Line]:
    """Lines inside the functions of modules, classes and functions; no `def`, no docstring."""
    return {
        (code.co_filename, line)
        for thing in covers
        for code in _codes(thing)
        for _, _, line in code.co_lines()
        if line is not None and line != code.co_firstlineno
    }


def _codes(thing: Any) -> Iterator[CodeType]:
    if isinstance(thing, ModuleType):
        whole = compile(inspect.getsource(thing), str(thing.__file__), "exec", dont_inherit=True)
        yield from (code for code in _nested(whole) if code.co_flags & inspect.CO_NEWLOCALS and not _is_class(code))
    elif isinstance(thing, type):
        for member in vars(thing).values():
            inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(inner):
                yield from _codes(inner)
    else:
        yield thing.__code__
        yield from _nested(thing.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)


def _is_class(code: CodeType) -> bool:
    return "__qualname__" in code.co_names and not code.co_flags & inspect.CO_OPTIMIZED
