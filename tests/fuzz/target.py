"""The fuzz target: one decoder as a function of bytes, and all that is known about its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz.forms import Form

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, kw_only=True)
class Target:
    """`run` raises for a bug and for nothing else; a refusal that the decoder declares is told to `refused`.

    It returns how many inputs the bytes stood for: messages, of a script of several.
    """

    name: str
    run: Callable[[bytes], int]
    form: Form
    seeds: Callable[[], Sequence[bytes]]
    """Valid input, made by the project's own encoders."""
    covers: Sequence[Any]
    """Modules, classes and functions whose lines are reported."""
    head: bytes = b""
    """In front of random bytes, so that some get past the first check."""
    base_bytes: int = MIB
    bytes_each: int = 64
    """One input of `n` bytes allocates no more than `base_bytes + n * bytes_each` at once."""

    share: float = 1.0
    """Of the inputs that are asked for: less than one for what stands behind decoders with their own target."""

    arrays: bool = False
    """Whether numpy is behind it, whose comparisons give arrays."""

    def bound(self, size: int) -> int:
        return self.base_bytes + size * self.bytes_each


class Listener:
    """Takes the words of a refusal: a kind of refusal never seen before is as good as a new branch."""

    hear: Callable[[str], object] = staticmethod(lambda words: None)


def refused(error: Exception, chars: int = 200) -> None:
    """A declared refusal. `chars`: how much of its words tells kinds of refusal apart."""
    Listener.hear(str(error)[:chars])
