"""Golden figures of other tools: download a release, run all cases through its own functions, store the numbers.

    python -m tests.golden.other_tools.record                  # the versions that `--as` names
    python -m tests.golden.other_tools.record vllm --newest    # compare the newest release with these

A release is unpacked in a temporary directory, which is deleted. Only numbers, names and the version are stored.
With `--newest` nothing is stored: the fields that differ are printed, and the exit code is 1 if there are any.
vLLM's wheel has more than 300 MB.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from telemetry.report.other_tools.tool import TOOLS

HERE: Final = Path(__file__).parent
_SAME: Final = 1e-9
_SHOWN: Final = 40


@dataclass(frozen=True)
class Source:
    """The place of a tool's functions, and the packages that they need."""

    files: tuple[str, ...]
    """Files of the wheel that are unpacked; empty for all."""
    needs: tuple[str, ...]


SOURCES: Final = {
    "vllm": Source(("vllm/benchmarks/serve.py", "vllm/benchmarks/lib/endpoint_request_func.py"), ("numpy",)),
    "sglang": Source(
        ("sglang/benchmark/serving.py", "sglang/benchmark/goodput.py"), ("numpy", "msgspec", "orjson")
    ),
    "aiperf": Source(
        (),
        (
            *(
                "numpy",
                "pandas",
                "scipy",
                "crick",
                "pydantic",
                "pydantic-settings",
                "ruamel.yaml",
                "orjson",
                "pyzmq",
            ),
            *("psutil", "cyclopts", "rich", "msgspec", "jinja2", "pyyaml", "aiohttp", "aiofiles"),
        ),
    ),
}


def golden(tool: str) -> Path:
    """Return the file with the stored figures of a tool."""
    return HERE / f"{tool}.json"


def recorded(tool: str, version: str) -> dict[str, Any]:
    """Download a release, the newest one without a version, and return the figures of its own functions."""
    source = SOURCES[tool]
    with TemporaryDirectory(prefix="other-tools-") as name:
        room = Path(name)
        venv.create(room / "venv", with_pip=True)
        python = room / "venv" / "bin" / "python"
        _run(python, "-m", "pip", "install", "-q", *source.needs)
        wanted = f"{tool}=={version}" if version else tool
        _run(python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(room), wanted)
        wheel = next(room.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(room / "files", source.files or None)
        paths = os.pathsep.join([str(HERE), str(room / "files")])
        answer = subprocess.run(
            [python, str(HERE / f"run_{tool}.py")],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.PIPE,
            check=True,
        )
    return {"tool": tool, "version": wheel.name.split("-")[1], **json.loads(answer.stdout)}


def differences(stored: Any, new: Any, name: str = "") -> Iterator[str]:
    """Yield the fields in which two results differ."""
    if isinstance(stored, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*stored, *new]):
            where = f"{name}.{key}" if name else str(key)
            if key not in new:
                yield f"{where} is gone"
            elif key not in stored:
                yield f"{where} is new"
            else:
                yield from differences(stored[key], new[key], where)
    elif isinstance(stored, list) and isinstance(new, list):
        yield from (f"{name}: {key} is gone" for key in sorted({*stored} - {*new}))
        yield from (f"{name}: {key} is new" for key in sorted({*new} - {*stored}))
    elif isinstance(stored, int | float) and isinstance(new, int | float):
        if not math.isclose(stored, new, rel_tol=_SAME, abs_tol=_SAME):
            yield f"{name} is {new!r}, was {stored!r}"
    elif stored != new:
        yield f"{name} is {new!r}, was {stored!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"{', '.join(SOURCES)} (default: all)")
    parser.add_argument("--newest", action="store_true", help="compare the newest release with the stored figures")
    settings = parser.parse_args()
    if unknown := set(settings.tools) - set(SOURCES):
        parser.error(f"unknown tool {', '.join(sorted(unknown))}")
    differ = False
    for tool in settings.tools or SOURCES:
        version = next(one.version for one in TOOLS if one.name == tool)
        found = recorded(tool, "" if settings.newest else version)
        if not settings.newest:
            golden(tool).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
            print(f"{tool} {found['version']}: {len(found['cases'])} cases in {golden(tool)}")
            continue
        stored = json.loads(golden(tool).read_text())
        found["version"] = stored["version"] + (" or newer" if found["version"] != stored["version"] else "")
        lines = [line for line in differences(stored, found) if not line.startswith("version ")]
        differ |= bool(lines)
        print(f"{tool}: {f'{len(lines)} fields differ' if lines else 'all figures are the same'}")
        print("".join(f"  {line}\n" for line in lines[:_SHOWN]), end="")
    return int(differ)


def _run(python: Path, *words: str) -> None:
    subprocess.run([python, *words], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
