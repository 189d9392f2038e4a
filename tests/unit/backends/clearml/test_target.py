"""Settings and artifacts as ClearML has them."""

from __future__ import annotations

from telemetry.backends.clearml.backend import artifact_entry, hyperparams
from telemetry.backends.items import Artifact


def test_settings_are_text_with_a_type() -> None:
    """A setting is text with a type, in the section for settings that no parser made."""
    made = hyperparams({"lr": 0.5, "warm": True, "none": None})["General"]
    assert {name: (one["value"], one["type"]) for name, one in made.items()} == {
        "lr": ("0.5", "float"),
        "warm": ("True", "bool"),
        "none": ("", "NoneType"),
    }


def test_an_artifact_is_an_address() -> None:
    """A path becomes one, so that an importer does not take it for a file of its own."""
    entry = artifact_entry(Artifact(key="r1", time_ns=5 * 10**9, name="m", uri="/a/b", kind="model"))
    assert (entry["key"], entry["type"], entry["uri"], entry["timestamp"]) == ("m", "model", "file:///a/b", 5)
    assert artifact_entry(Artifact(key="r1", time_ns=0, name="m", uri="s3://b/c"))["uri"] == "s3://b/c"
