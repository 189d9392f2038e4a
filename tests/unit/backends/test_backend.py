"""Tests of the errors and facts that a backend may give."""

from __future__ import annotations

from pathlib import Path

from telemetry.backends.backend import Backend, NotConfigured, Refused, Unavailable, missing
from telemetry.backends.jsonl import JsonlBackend, JsonlOptions


def test_what_it_says_can_be_read() -> None:
    """Errors of a backend are readable for people and for the courier."""
    assert str(missing("wandb", "wandb")) == "wandb is not installed (pip install 'telemetryd[wandb]')"
    error = ImportError("no libssl")
    assert str(missing("aim", "aim", error)) == "can't import aim: no libssl (pip install 'telemetryd[aim]')"
    assert "not installed" in str(missing("aim", "aim", ModuleNotFoundError(name="aim")))
    refused = Refused("too_large", ["r1", "r2"])
    assert (str(refused), refused.keys) == ("2 items: too_large", {"r1", "r2"})
    assert str(Refused("too_large", ["r1"])) == "1 item: too_large"
    assert (Unavailable("busy").after_s, Unavailable("busy", 3.0).after_s) == (0.0, 3.0)
    assert NotConfigured("no").exit_code == 1


def test_ours_are_backends(tmp_path: Path) -> None:
    """A backend of ours follows the protocol `Backend`, as the type checker sees it."""
    backend: Backend = JsonlBackend(JsonlOptions(), tmp_path)
    assert backend.where() == ""
