"""Config and summary of a run."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import PurePath
from typing import Any, NoReturn

from telemetry.client.steps import number
from telemetry.compat.wandb.errors import UsageError
from telemetry.compat.wandb.sdk.lib.config_util import ConfigError


class Config:
    """Settings of a run, as a mapping and as attributes."""

    def __init__(self) -> None:
        object.__setattr__(self, "_items", {})
        object.__setattr__(self, "_on_change", None)

    def __repr__(self) -> str:
        return str(self.as_dict())

    def keys(self) -> list[str]:
        return [key for key in self._items if not key.startswith("_")]

    def items(self) -> list[tuple[str, Any]]:
        return [(key, self._items[key]) for key in self.keys()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.items())

    def get(self, key: str, default: Any = None) -> Any:
        return self._items.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return object.__getattribute__(self, "_items")[key]
        except KeyError:
            raise AttributeError(f"the config has no setting {key!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __setitem__(self, key: str, value: Any) -> None:
        self._change({key: value}, allow_val_change=False)

    def __setattr__(self, key: str, value: Any) -> None:
        self._change({key: value}, allow_val_change=False)

    def update(self, d: Any, allow_val_change: bool | None = None) -> None:
        """Set settings from a mapping, a namespace or pairs. Raise ConfigError for a changed value.

        With `allow_val_change`, a value may change.
        """
        self._change(settings_of(d), allow_val_change=bool(allow_val_change))

    def setdefaults(self, d: Any) -> None:
        """Set the settings that have no value yet."""
        fresh = {key: value for key, value in settings_of(d).items() if key not in self._items}
        self._change(fresh, allow_val_change=True)

    def persist(self) -> None:
        """Record all settings again."""
        self._record(self._items)

    def observe(self, on_change: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `on_change` with later changes."""
        object.__setattr__(self, "_on_change", on_change)

    def _change(self, settings: Mapping[str, Any], *, allow_val_change: bool) -> None:
        changed: dict[str, Any] = {}
        for key, value in settings.items():
            name, plain = str(key).strip("-"), _plain(value)
            before = self._items.get(name, plain)
            if not allow_val_change and before != plain:
                raise ConfigError(
                    f"config.{name} is {before!r} already and was to become {plain!r}: "
                    "pass allow_val_change=True to config.update()"
                )
            changed[name] = plain
        self._items.update(changed)
        self._record(changed)

    def _record(self, settings: Mapping[str, Any]) -> None:
        if self._on_change is not None and settings:
            self._on_change(settings)


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


def settings_of(given: Any) -> dict[str, Any]:
    """Return settings as a dictionary. Raise UsageError for a file and TypeError for what has no names."""
    if given is None:
        return {}
    if isinstance(given, str | PurePath):
        raise UsageError(f"config={str(given)!r}: files are not read; load it and pass a dictionary")
    if isinstance(given, Mapping | Config):
        return dict(given.items())
    if hasattr(given, "flag_values_dict"):  # flags of absl
        return dict(given.flag_values_dict())
    if hasattr(given, "__dict__"):
        return dict(vars(given))
    try:
        return dict(given)
    except (TypeError, ValueError):
        _refuse(given)


def _refuse(given: object) -> NoReturn:
    raise TypeError(f"a config must be a dictionary or a namespace, not {type(given).__name__}")


def _plain(value: Any) -> Any:
    """Return a copy of a setting that consists of plain Python values, as W&B keeps them."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    return _plain_other(value)


def _plain_other(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    try:
        return value.item() if hasattr(value, "item") else number(value)
    except Exception:  # noqa: BLE001 – a setting may be anything; what is no number becomes a text or a list
        return value.tolist() if hasattr(value, "tolist") else str(value)
