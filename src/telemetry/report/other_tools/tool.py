"""The tools and versions whose definitions are known."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from telemetry.errors import UsageError

ToolName = Literal["vllm", "sglang", "sglang-native", "aiperf"]


@dataclass(frozen=True)
class Tool:
    """A benchmark tool in a version whose source was read."""

    name: ToolName
    version: str
    program: str
    """Name of its program, with what is special about this form of it."""

    @property
    def title(self) -> str:
        """Name with version and program, such as `vllm 0.33.0 bench serve`."""
        return f"{self.name.removesuffix('-native')} {self.version} {self.program}"


TOOLS: Final = (
    Tool("vllm", "0.33.0", "bench serve"),
    Tool("sglang", "0.5.23", "bench_serving, OpenAI backend"),
    Tool("sglang-native", "0.5.23", "bench_serving, native backend"),
    Tool("aiperf", "0.13.0", "profile"),
)
NAMES: Final = tuple(tool.name for tool in TOOLS)


def parse_tool(text: str) -> Tool:
    """Return the tool that `vllm` or `vllm@0.33` names. Raises UsageError for an unknown tool or version."""
    name, at, version = text.partition("@")
    tools = [tool for tool in TOOLS if tool.name == name]
    if not tools:
        near = get_close_matches(name, NAMES, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"--as {text}: unknown tool {name!r}", hint=f"{meant}one of {', '.join(NAMES)}")
    fitting = [tool for tool in tools if not at or _is_prefix(version, tool.version)]
    if not fitting:
        versions = ", ".join(f"{tool.name}@{tool.version}" for tool in tools)
        raise UsageError(
            f"--as {text}: the definitions of {name} {version or 'without a version'} are not known",
            hint=f"known: {versions}",
        )
    return fitting[-1]


def _is_prefix(version: str, whole: str) -> bool:
    """Return True if a version has the same parts as another one, as far as it has parts."""
    parts = version.split(".")
    return whole.split(".")[: len(parts)] == parts
