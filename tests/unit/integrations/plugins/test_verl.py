"""The plugin that verl imports by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
before = list(sys.meta_path)
import telemetry.integrations.plugins.verl as plugin
plugin.register()
found = [finder for finder in sys.meta_path if finder not in before]
print(*(name for finder in found for name in sorted(finder.hooks)))
print("telemetry.client" in sys.modules)
"""


@pytest.mark.parametrize(
    ("captures", "hooked"),
    [
        (None, ""),
        ("", ""),
        ("tensorboard", ""),
        ("verl", "verl.utils.tracking"),
        ("rl_insight,logging_of_others", "rl_insight.client rl_insight.utils"),
    ],
)
def test_it_hooks_only_where_verl_or_rl_insight_is_captured(captures: str | None, hooked: str) -> None:
    """The plugin hooks `verl` or RL-Insight only if it is captured.

    Nothing heavy is imported before the library is.
    """
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TELEMETRY_")}
    if captures is not None:
        environment["TELEMETRY_CAPTURE"] = captures
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [hooked, "False"]
