"""Stories by the thousand: `python -m tests.simulator --seeds 100000 --jobs 2`, or one of them: `--seed 7`.

`--seed N` tells the story of a seed. `--shrink N` looks for a simpler one that fails in the same way. `--forever`
goes on until Ctrl-C. `build/simulator.json` has the number of stories that each commit has passed.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulator.mutants import MUTANTS, plant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seeds", type=int, metavar="N", help="play N stories")
    what.add_argument("--forever", action="store_true", help="play stories until Ctrl-C")
    what.add_argument("--seed", type=int, metavar="N", help="play one story, and tell it")
    what.add_argument("--shrink", type=int, metavar="N", help="look for a simpler story that fails like this one")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--digests", action="store_true", help="print the digest of each story")
    parser.add_argument("--until-failure", action="store_true", help="end with the first story that fails")
    parser.add_argument("--plant", choices=MUTANTS, metavar="DEFECT", help="play with a defect of mutants.py")
    options = parser.parse_args()
    if options.plant:
        plant(options.plant)
    from tests.simulator.play import play_many, shrunk, tell
    from tests.simulator.story import play

    if options.seed is not None:
        return tell(play(options.seed))
    if options.shrink is not None:
        return tell(shrunk(options.shrink))
    return play_many(options)


if __name__ == "__main__":
    sys.exit(main())
