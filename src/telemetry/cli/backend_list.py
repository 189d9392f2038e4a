"""`telemetry export --list`: the backends, their requirements, and their options."""

from __future__ import annotations

from msgspec import Struct

from telemetry.backends.backend import NotConfigured
from telemetry.backends.choice import known, load, missing_modules
from telemetry.backends.items import KINDS
from telemetry.cli import console
from telemetry.common.distribution import install_hint
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import Option, options_of
from telemetry.wire.exit_codes import Exit


class ListedBackend(Struct, kw_only=True, frozen=True):
    """A backend of the list."""

    name: str
    missing: str = ""
    """The reason it can't be used, with advice; empty if it can be used."""
    options: list[Option] = []
    no_place: list[str] = []
    """Kinds of items that it does not accept."""


def show(*, as_json: bool) -> int:
    backends = [_listed(name) for name in sorted(known())]
    if as_json:
        console.write_json(backends)
        return Exit.OK
    for backend in backends:
        console.write(f"{backend.name}{f': {backend.missing}' if backend.missing else ''}\n")
        for option in backend.options:
            default = f" = {option.default}" if option.default else " (required)"
            console.write(f"    {option.name}: {option.type}{default}\n")
        if backend.no_place:
            console.write(f"    does not support {', '.join(backend.no_place)}\n")
    return Exit.OK


def _listed(name: str) -> ListedBackend:
    try:
        cls = load(name)
    except NotConfigured as error:
        return ListedBackend(name=name, missing=str(error))
    modules = missing_modules(name) if name in BUILT_IN else []
    return ListedBackend(
        name=name,
        missing=f"needs {' and '.join(modules)}: {install_hint(BUILT_IN[name].extra)}" if modules else "",
        options=options_of(cls.Options),
        no_place=[kind.__name__.lower() for kind in KINDS if kind not in cls.takes],
    )
