"""Adds the modules of the daemon's API to wheels, and its protos to source distributions.

Nothing is written into the source tree. In an editable install the modules lie in
site-packages, as `hearth/v1`, where hearth/__init__.py finds them.

$HEARTH_WHEEL_FILES makes the wheel a binary one, with the files of that folder, which is laid out
as the environment that the wheel is installed into (bin, lib, share), and with the platform tag
$HEARTH_WHEEL_PLATFORM: see deploy/python/build_wheel.sh.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AddApi(BuildHookInterface):
    """Hook of Hatchling, called before and after each wheel and source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        protos = runpy.run_path(str(Path(self.root) / "make_protos.py"))
        if self.target_name == "sdist":
            for proto in protos["PROTOS"]:
                build_data["force_include"][str(proto)] = f"proto/hearth/v1/{proto.name}"
            return
        self._made = tempfile.TemporaryDirectory(prefix="hearth-api-")
        protos["make"](Path(self._made.name))
        kind = "force_include_editable" if version == "editable" else "force_include"
        build_data[kind][str(Path(self._made.name) / "hearth")] = "hearth"
        if files := os.environ.get("HEARTH_WHEEL_FILES"):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{os.environ['HEARTH_WHEEL_PLATFORM']}"
            for path in Path(files, "bin").iterdir():
                build_data["shared_scripts"][str(path)] = path.name
            for name in ("lib", "share"):
                build_data["shared_data"][str(Path(files, name))] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name != "sdist":
            self._made.cleanup()
        # Python's compiled form of this file.
        compiled = Path(__spec__.cached)
        compiled.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # The folder has other files, or does not exist.
            compiled.parent.rmdir()
