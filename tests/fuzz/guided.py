"""Fuzzes one target, guided by coverage: `python -m tests.fuzz.guided TARGET …`, started by `tests.fuzz.run`.

atheris drives: it keeps what reaches a new branch, or is refused in new words, in the corpus folder. What is tried
next is made by the engine, so that it is known how many inputs were mutations of valid ones.
"""

from __future__ import annotations

import operator
import os
import sys
import warnings
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["telemetry"]):
    from tests.fuzz.targets import TARGETS

from tests.fuzz.engine import HANG_S, LONGEST, Engine, bound_memory, parser
from tests.fuzz.target import Listener
from tests.fuzz.tracing import kind_of

_KINDS_OF_REFUSAL: Final = 3_000
_CACHED: Final = 10_000
_PLAIN: Final = frozenset({int, str, bytes, float, bool})
_COMPARE: Final = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)


class Ear:
    """Makes a branch of every new kind of refusal."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._heard: dict[str, int] = {}

    def hear(self, words: str) -> None:
        counter = self._heard.get(words)
        if counter is None:
            kind = kind_of(words)
            if kind not in self._counters:
                if len(self._counters) >= _KINDS_OF_REFUSAL:
                    return
                self._counters[kind] = atheris._reserve_counter()
            if len(self._heard) >= _CACHED:
                self._heard.clear()
            counter = self._heard[words] = self._counters[kind]
        atheris._trace_branch(counter)


def _compare_without_leak() -> None:
    """Takes the place of what instrumented code calls for each comparison, once `Fuzz` has begun. atheris' own
    keeps every result that is no bool for ever, such as numpy's; and there is nothing to be guided by in them."""
    trace = atheris._trace_cmp

    def compare(left: Any, right: Any, operation: int, counter: int, constant: bool) -> Any:
        if type(left) in _PLAIN and type(right) in _PLAIN:
            return trace(left, right, operation, counter, constant)
        return _COMPARE[operation](left, right)

    atheris._trace_cmp = compare


def main() -> None:
    args = parser(list(TARGETS)).parse_args()
    warnings.simplefilter("error")
    engine = Engine(TARGETS[args.target], args.inputs, args.seconds, args.seed, args.result)
    Listener.hear = Ear().hear

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return engine.make(data, lambda evolved: bytes(atheris.Mutate(evolved, max_size)))

    def run(data: bytes) -> None:
        if not engine.result.executions and engine.target.arrays:
            _compare_without_leak()
        engine.run(data)
        if engine.over:
            engine.finish()
            os._exit(0)

    options = [
        sys.argv[0], str(args.corpus), f"-seed={args.seed}", f"-max_len={LONGEST}", "-len_control=0",
        "-mutate_depth=1", f"-timeout={HANG_S}", "-rss_limit_mb=1024", f"-artifact_prefix={args.result}.",
    ]  # fmt: skip
    bound_memory()
    atheris.Setup(options, run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
