"""The summary of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any


class Summary(MutableMapping[str, Any]):
    """One value for each name, as a mapping and as attributes: the last one logged, or one that was set."""

    def __init__(self, values: dict[str, Any], on_set: Callable[[Mapping[str, Any]], None]) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_on_set", on_set)

    def __repr__(self) -> str:
        return str(self._values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        try:
            return self._values[key]
        except KeyError:
            raise AttributeError(f"the summary has no value {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def update(self, *args: Any, **named: Any) -> None:
        """Set values and record them."""
        values = dict(*args, **named)
        self._values.update(values)
        self._on_set(values)
