"""A `with` block that closes its object."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A base of classes with a `close` method: `with` calls it at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release all resources. Can be called twice."""
        raise NotImplementedError
