"""A library of another project for tests of patches, and an observer that keeps what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import ModuleType
from typing import Any

from telemetry.integrations.capture.patching import Observers, Patch


class Library:
    """A library of another project, made anew for each test."""

    def __init__(self) -> None:
        class Base:
            def inherited(self, value: int) -> int:
                """Double a value."""
                return 2 * value

            @classmethod
            def made(cls, value: int) -> tuple[type, int]:
                return cls, value

        class Writer(Base):
            def put(self, tag: str, value: float = 0.0, /, *rest: float, **options: Any) -> str:
                """Put a value."""
                return f"{tag}={value}{rest or ''}{options or ''}"

            @staticmethod
            def plain(value: int) -> int:
                return value + 1

            async def wait(self, value: int) -> int:
                await asyncio.sleep(0)
                return value

            def count(self, end: int) -> Generator[int, int | None, str]:
                sent = []
                for number in range(end):
                    sent.append((yield number))
                return f"sent {sent}"

            def fail(self, error: BaseException) -> None:
                raise error

        self.Base, self.Writer = Base, Writer
        self.module = ModuleType("library")
        self.module.put = lambda value: value  # type: ignore[attr-defined]


class Seen:
    """Calls that an observer got, and the patches that make it get them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.observers = Observers("library")

    def patch(self, owner: Any, name: str) -> Patch:
        return Patch(owner, name, self.observers.after(self, name))

    def __call__(self, result: Any, *args: Any, **kwargs: Any) -> None:
        self.calls.append((result, *args, *kwargs.items()))
