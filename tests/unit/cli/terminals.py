"""A terminal of which the test is the user."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DEADLINE_S = 30.0


class Desk:
    """`near` is what a program has of the terminal; the user sits at `far`."""

    def __init__(self) -> None:
        self.far, self.near = os.openpty()
        self.seen = b""
        """All that has come to the screen so far."""

    def type(self, keys: bytes) -> None:
        os.write(self.far, keys)

    def wait_for(self, words: bytes) -> bytes:
        """Wait until the words are on the screen, and return all of it."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.seen:
            left_s = deadline - time.monotonic()
            assert left_s > 0, (words, self.seen)
            if select.select([self.far], [], [], left_s)[0]:
                self.seen += os.read(self.far, 65_536)
        return self.seen

    def look(self) -> bytes:
        """Return the content of the screen by now."""
        while select.select([self.far], [], [], 0)[0]:
            self.seen += os.read(self.far, 65_536)
        return self.seen

    def leave(self) -> None:
        """The user closes the terminal."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    def close(self) -> None:
        self.leave()
        os.close(self.near)


@contextmanager
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds, whatever thread makes it so."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_until(fd: int, words: bytes) -> bytes:
    """Return the bytes of a descriptor, read until all of the words are there."""
    found = b""
    deadline = time.monotonic() + DEADLINE_S
    while words not in found:
        left_s = deadline - time.monotonic()
        assert left_s > 0, (words, found)
        if select.select([fd], [], [], left_s)[0]:
            found += os.read(fd, 65_536)
    return found
