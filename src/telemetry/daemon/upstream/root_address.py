"""Settings of a run on several nodes, as they were given: the address of the root, and the nodes of the run."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from telemetry import limits
from telemetry.config.schema import Config, UpstreamConfig
from telemetry.errors import EndpointError, UsageError
from telemetry.store.run_directory import Manifest
from telemetry.transport.endpoints import check_connectable, split_key
from telemetry.wire.control import ExpectNodes

_NAME_RULE: Final = f"1 to {limits.NAME_CHARS} printable characters, without commas"


def check_root(address: str, own: str) -> None:
    """Check that the address of a root can be one, and is not the leaf's own. Raises EndpointError, UsageError."""
    if not address:
        return
    try:
        check_connectable(address)
    except EndpointError as error:
        raise EndpointError(f"upstream.address: {error.message}", hint=error.hint) from error
    if split_key(address)[0] == split_key(own)[0]:
        raise UsageError(f"{address} is the address of this leaf", hint="give the address of the root")


def check_node(name: str) -> None:
    """Check that a name can be that of a node. Empty text stands for the host name. Raises UsageError."""
    if name and not _is_name(name):
        raise UsageError(f"{name[:40]!r} is not a valid name for a node", hint=_NAME_RULE)


def with_root_of(manifest: Manifest, config: Config, moved_to: str = "") -> Config:
    """Return the settings with the root of the run that is resumed. `moved_to` is a new address of this root.

    Raises UsageError if the run has no root that could have moved.
    """
    section, upstream = manifest.config.get("upstream"), UpstreamConfig()
    if isinstance(section, dict):
        with suppress(msgspec.ValidationError):
            upstream = msgspec.convert(section, UpstreamConfig)
    if moved_to:
        if not upstream.address:
            raise UsageError(f"the run {manifest.name} has no root, so --upstream can't move it", hint="remove it")
        upstream = replace(upstream, address=moved_to)
    return replace(config, upstream=upstream)


def expected_nodes(text: str) -> ExpectNodes | None:
    """Return the nodes of a run by their number or their names. Raises UsageError.

    Empty text stands for none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        if text.strip():
            raise UsageError(f"{text.strip()[:40]!r} names no nodes", hint="give a number, or names with commas")
        return None
    if len(names) == 1 and names[0].isascii() and names[0].isdecimal():
        count = int(names[0])
        if not 1 <= count <= limits.NODES:
            raise UsageError(f"a run has 1 to {limits.NODES:,} nodes, not {names[0][:20]}")
        return ExpectNodes(count=count)
    if len(names) > limits.NODES:
        raise UsageError(f"a run has at most {limits.NODES:,} nodes")
    for name in names:
        check_node(name)
    return ExpectNodes(nodes=list(dict.fromkeys(names)))


def _is_name(name: str) -> bool:
    return bool(name.strip()) and len(name) <= limits.NAME_CHARS and name.isprintable() and "," not in name
