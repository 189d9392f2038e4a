"""Compiles what is in C, where there is a compiler. Without one nothing is missing, only rows take more time."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/telemetry/aggregator/_usual.c")
FLAGS = ("-O2", "-fPIC", "-ffp-contract=off")  # numpy rounds a product before it adds it to something


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Puts the module beside its source, where an editable installation finds it, and into the wheel."""
        source = Path(self.root) / SOURCE
        module = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        module.unlink(missing_ok=True)
        linker = shlex.split(os.environ.get("LDSHARED") or sysconfig.get_config_var("LDSHARED"))
        headers = sysconfig.get_path("include")
        try:
            subprocess.run([*linker, *FLAGS, f"-I{headers}", str(source), "-o", str(module)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(
                f"Nothing is compiled ({error}): the aggregator takes more time for each event."
            )
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(f"/{module.relative_to(self.root)}")
