"""An extension of griffe, which reads the docstrings: the code under `Example:` is shown as a block of Python."""

from __future__ import annotations

import re
from textwrap import dedent, indent
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(Examples?:\n)((?:(?: {4}.*)?\n?)+)", re.MULTILINE)


class ExampleBlocks(griffe.Extension):
    """Put a fence around each example."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    return match[1] + indent(f"```python\n{dedent(match[2]).strip()}\n```", "    ") + "\n\n"
