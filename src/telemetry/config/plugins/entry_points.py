"""The plug-ins of each group: where they come from, and how they are loaded.

A package offers a plug-in by an entry point of one of the groups in `GROUPS`. A plug-in can't replace a built-in
one. Of two packages with the same name for a plug-in, the package whose name comes first in the alphabet wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from telemetry.common import distribution
from telemetry.common.formatting import printable
from telemetry.errors import UsageError, error_text

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUPS: Final = {
    "backends": "telemetry.backends",
    "collectors": "telemetry.collectors",
    "feeds": "telemetry.feeds",
    "integrations": "telemetry.integrations",
    "importers": "telemetry.importers",
}
"""Group of plug-ins → group of entry points."""
NOUNS: Final = {
    "backends": "backend",
    "collectors": "collector",
    "feeds": "feed",
    "integrations": "capture",
    "importers": "importer",
}
"""Group of plug-ins → one of them, in messages."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in as its package declares it. It is not imported yet."""

    name: str
    group: str
    """A key of `GROUPS`."""
    value: str
    """Where it is: `module:name`, or `module`."""
    package: str
    """Name of the package that offers it; empty if its metadata has none."""
    version: str
    is_built_in: bool

    @property
    def noun(self) -> str:
        """The plug-in in messages: `backend wandb`."""
        return f"{NOUNS[self.group]} {printable(self.name)}"

    @property
    def origin(self) -> str:
        """The package with its version in messages: `package foo 1.2`."""
        return " ".join(
            filter(None, ("package", printable(self.package) or "without a name", printable(self.version)))
        )


class PluginError(UsageError):
    """A plug-in can't be loaded. The message names the package and the cause, the hint says what to do."""


def plugins(group: str, built_in: Mapping[str, str]) -> dict[str, Plugin]:
    """Return the plug-ins of a group by name, without importing any. `built_in`: name → value."""
    return {name: offers[0] for name, offers in offered(group, built_in).items()}


def find(group: str, name: str, built_in: Mapping[str, str]) -> Plugin:
    """Return a plug-in that is known to exist. Other packages are read only for one that is not built in."""
    if name in built_in:
        return _ours(group, {name: built_in[name]})[name]
    return plugins(group, built_in)[name]


def offered(group: str, built_in: Mapping[str, str]) -> dict[str, list[Plugin]]:
    """Return all offers of each name of a group. The first one is used, the others are hidden by it."""
    offers = {name: [plugin] for name, plugin in _ours(group, built_in).items()}
    others = [
        Plugin(point.name, group, point.value, *_package_of(point), is_built_in=False)
        for point in _entry_points(GROUPS[group])
    ]
    for offer in sorted(others, key=lambda offer: (offer.package.lower(), offer.value)):
        same = offers.setdefault(offer.name, [])
        if not any(other.package == offer.package and other.value == offer.value for other in same):
            same.append(offer)
    return dict(sorted(offers.items()))


def load(plugin: Plugin) -> Any:
    """Import a plug-in and return its class or module. Raises PluginError."""
    from importlib.metadata import EntryPoint

    try:
        return EntryPoint(plugin.name, plugin.value, GROUPS[plugin.group]).load()
    except (Exception, SystemExit) as error:
        raise broken(plugin, printable(error_text(error)), error) from error


def broken(plugin: Plugin, cause: str, error: BaseException | None = None) -> PluginError:
    """Return the error of a plug-in that can't be used, with the remedy. `error`: the exception of its import."""
    message = f"can't load the {plugin.noun}: {plugin.origin} is broken: {cause}"
    package = printable(plugin.package)
    if plugin.is_built_in:
        hint = f"install {distribution.NAME} again: pip install --force-reinstall {distribution.NAME}"
    elif not package:
        hint = "uninstall the package that declares it"
    elif isinstance(error, ModuleNotFoundError) and error.name and not _is_part(error.name, plugin.value):
        module = printable(error.name)
        hint = f"install what provides the module {module}, or uninstall the package: pip uninstall {package}"
    else:
        hint = f"report it to the authors of {package}, or uninstall it: pip uninstall {package}"
    return PluginError(message, hint=hint)


def is_installed(module: str) -> bool:
    """Return whether a module is installed.

    Imports its parent packages, which are empty, but not the module itself.
    """
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


# --- helpers -----------------------------------------------------------------------------------------


def _ours(group: str, built_in: Mapping[str, str]) -> dict[str, Plugin]:
    version = distribution.version()
    return {
        name: Plugin(name, group, value, distribution.NAME, version, is_built_in=True)
        for name, value in built_in.items()
    }


def _is_part(module: str, value: str) -> bool:
    """Return whether a missing module belongs to the package of the entry point itself."""
    return module.partition(".")[0] == value.partition(":")[0].partition(".")[0]


def _entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, also if the metadata of some package can't be read."""
    from importlib.metadata import distributions, entry_points  # slow to import

    try:
        return entry_points(group=group)
    except Exception:  # noqa: BLE001  a malformed file of one package must not hide the plug-ins of others
        return [point for package in distributions() for point in _points_of(package, group)]


def _points_of(package: Distribution, group: str) -> Iterable[EntryPoint]:
    try:
        return package.entry_points.select(group=group)
    except Exception:  # noqa: BLE001  as above
        return ()


def _package_of(point: EntryPoint) -> tuple[str, str]:
    """Return the name and the version of the package that declares an entry point."""
    package = point.dist
    try:
        return (package.name or "", package.version or "") if package is not None else ("", "")
    except Exception:  # noqa: BLE001  metadata is written by others, and may be missing
        return "", ""
