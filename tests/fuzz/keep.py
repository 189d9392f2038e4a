"""`python -m tests.fuzz.keep TARGET FOLDER`: what of a folder of inputs is worth keeping goes to the corpus.

Prints one line of JSON: how many inputs that were, and how many of the decoder's lines they reach.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS
from tests.fuzz.tracing import lines_of, worth_keeping


def main() -> None:
    name, folder = sys.argv[1:]
    target = TARGETS[name]
    inputs = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    kept, reached = worth_keeping(target, inputs, corpus.INPUT_BYTES)
    count = corpus.save(name, kept)
    lines = lines_of(target.covers)
    hit = lines & {(file, line) for file, _, line in reached}
    unreached = sorted(f"{Path(file).name}:{line}" for file, line in lines - hit)
    refusals = sum(not line for _, _, line in reached)
    facts = {
        "refusals": refusals,
        "corpus": count,
        "lines": len(lines),
        "lines_reached": len(hit),
        "unreached": unreached[:50],
    }
    print(msgspec.json.encode(facts).decode())


if __name__ == "__main__":
    main()
