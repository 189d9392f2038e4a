"""Fuzzes one target at full speed: `python -m tests.fuzz.volume TARGET …`, started by `tests.fuzz.run`.

No coverage, and nothing instrumented: what a guided run found is changed further, beside what is valid.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

from tests.fuzz.engine import Engine, bound_memory, parser
from tests.fuzz.forms import pick
from tests.fuzz.targets import TARGETS


def main() -> None:
    args = parser(list(TARGETS)).parse_args()
    warnings.simplefilter("error")
    found = [path.read_bytes() for path in sorted(args.corpus.iterdir())]
    engine = Engine(TARGETS[args.target], args.inputs, args.seconds, args.seed + 1, args.result)
    bound_memory()
    with suppress(Exception):  # it is in the result
        while not engine.over:
            engine.run(engine.make(pick(engine.chance, found)))
        engine.finish()


if __name__ == "__main__":
    main()
