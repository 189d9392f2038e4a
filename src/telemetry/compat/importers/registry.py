"""The importers, and the choice of the one that reads a file."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec

from telemetry.common.formatting import printable
from telemetry.compat.importers.result_file import ResultFile, refuse_unknown
from telemetry.compat.importers.results import Results
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.choice import unknown
from telemetry.errors import UsageError, error_text
from telemetry.wire.imported import ImportedFile

GROUP: Final = "importers"
BUILT_IN: Final = {
    name: f"telemetry.compat.importers.{module}"
    for name, module in {
        "csv": "any_csv",
        "k6": "k6",
        "locust": "locust",
        "jmeter": "jmeter",
        "gatling": "gatling",
        "hey": "hey",
        "oha": "oha",
        "vegeta": "vegeta",
        "hdrhistogram": "hdrhistogram",
        "vllm": "vllm",
        "sglang": "sglang",
        "guidellm": "guidellm",
        "aiperf": "aiperf",
        "inference-perf": "inference_perf",
        "loadgen": "loadgen",
        "endpoints": "endpoints",
        "hyperfine": "hyperfine",
        "pytest-benchmark": "pytest_benchmark",
        "google-benchmark": "google_benchmark",
        "go-test": "go_test",
        "criterion": "criterion",
        "openmetrics": "openmetrics",
    }.items()
}
"""Name → module. `pyproject.toml` has the same entry points. Files are offered in this order."""
UNREADABLE: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(EOFError, zlib.error, csv.Error, msgspec.MsgspecError),
)
"""What reading a file of any content may raise."""


class UnknownFileError(UsageError):
    """No importer recognizes a file. `forms` is what they look for."""

    def __init__(self, message: str, *, hint: str, forms: Sequence[str]) -> None:
        super().__init__(message, hint=hint)
        self.forms = forms


class Importer(Protocol):
    """An importer; see the package."""

    TOOL: str
    LOOKS_FOR: str

    def recognizes(self, file: ResultFile) -> bool: ...

    def read(self, file: ResultFile, results: Results) -> None: ...


def load(name: str) -> Importer:
    """Import an importer. Raises UsageError for an unknown name, and PluginError."""
    plugins = entry_points.plugins(GROUP, BUILT_IN)
    if name not in plugins:
        raise unknown(name, "importer", plugins)
    module = entry_points.load(plugins[name])
    missing = [part for part in ("TOOL", "LOOKS_FOR", "recognizes", "read") if not hasattr(module, part)]
    if missing:
        raise entry_points.broken(plugins[name], f"it lacks {', '.join(missing)}")
    return cast(Importer, module)


def choose(file: ResultFile) -> Importer:
    """Return the importer that recognizes a file. Raises UsageError with what was looked for."""
    names = [*BUILT_IN, *(name for name in entry_points.plugins(GROUP, BUILT_IN) if name not in BUILT_IN)]
    forms = []
    for name in names:
        try:
            importer = load(name)
            if importer.recognizes(file):
                return importer
            forms.append(importer.LOOKS_FOR)
        except entry_points.PluginError as error:
            forms.append(str(error))
        except UNREADABLE:
            forms.append(importer.LOOKS_FOR)  # another one may know the file
    raise UnknownFileError(
        f"{printable(str(file.path))} is not a result file that telemetry knows",
        hint="choose one with --as TOOL, or --columns time=NAME,value=NAME for any CSV",
        forms=forms,
    )


def read_results(
    path: Path, tool: str = "", columns: Mapping[str, str] | None = None
) -> tuple[Results, ImportedFile]:
    """Read a result file by its importer, or by that of `tool`. Raises UsageError for a file that can't be read."""
    if not path.exists():
        raise UsageError(f"{printable(str(path))} does not exist")
    file = ResultFile(path.absolute(), columns or {})
    results = Results()
    try:
        importer = load(tool) if tool else choose(file)
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(file.digest)
            importer.read(file, results)
            size, sha256 = file.digest() if file.others else digest.result()
    except OSError as error:
        raise UsageError(f"can't read {printable(str(path))}: {error_text(error)}") from error
    except UNREADABLE as error:
        if isinstance(error, UsageError):
            raise
        raise refuse_unknown(error, path, importer.TOOL) from error
    origin = ImportedFile(
        tool=results.tool or importer.TOOL,
        version=results.version,
        file=str(file.path),
        size=size,
        sha256=sha256,
        measured_s=results.measured_s,
        unknown=results.unknown,
        stated=results.stated,
    )
    return results, origin
