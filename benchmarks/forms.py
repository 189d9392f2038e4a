"""Small alternatives in one process, in turn, round after round: the figures behind docs/adr."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Form(NamedTuple):
    """One way to do it: what to run, how many things it handles, and the bytes it makes or holds, if any."""

    name: str
    run: Callable[[], object]
    things: int
    unit: str
    size: int = 0


def tiny_asked(what: str) -> bool:
    """Whether the command line asks for a run too short for figures."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    return bool(parser.parse_args().tiny)


def measure(forms: Sequence[Form], rounds: int, repeats: int) -> list[list[float]]:
    """Process-CPU ns for each thing handled, one figure a round."""
    figures: list[list[float]] = [[] for _ in forms]
    for _ in range(rounds):
        for form, mine in zip(forms, figures, strict=True):
            began = time.process_time_ns()
            for _ in range(repeats):
                form.run()
            mine.append((time.process_time_ns() - began) / repeats / form.things)
    return figures


def show(forms: Sequence[Form], rounds: int, repeats: int) -> None:
    """Measures, and prints a Markdown table."""
    print("| what | per | CPU ns, median (lowest) | bytes |")
    print("|---|---|---|---|")
    for form, figures in zip(forms, measure(forms, rounds, repeats), strict=True):
        size = f"{form.size / form.things:,.1f}" if form.size else ""
        print(f"| {form.name} | {form.unit} | {statistics.median(figures):.1f} ({min(figures):.1f}) | {size} |")
