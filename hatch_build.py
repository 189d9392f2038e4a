"""Compiles what is in C, where there is a compiler. Without one nothing is missing, only rows take more time."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/telemetry/aggregator/_compiled.c")
FLAGS = ("-O2", "-fPIC", "-ffp-contract=off")  # numpy rounds a product before it adds it to something


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Puts the module into the wheel; for an editable installation, beside its source."""
        self._folder = Path(tempfile.mkdtemp())
        source = Path(self.root) / SOURCE
        module = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        made = self._folder / module.name
        try:
            _compile(source, made)
            if version == "editable":
                shutil.copy(made, f"{module}.new")
                os.replace(f"{module}.new", module)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"Nothing is compiled ({error}): rows take more time.")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version != "editable":
            build_data["force_include"][str(made)] = str(module.relative_to(Path(self.root) / "src"))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder)


def _compile(source: Path, module: Path) -> None:
    linker = shlex.split(os.environ.get("LDSHARED") or sysconfig.get_config_var("LDSHARED"))
    defined = f"-DSOURCE_CRC={zlib.crc32(source.read_bytes())}u"
    headers = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*linker, *FLAGS, defined, headers, str(source), "-o", str(module)], check=True)
