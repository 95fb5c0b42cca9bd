"""Makes the package `hearth.v1`, the Python modules of the daemon's API, from the protos.

    python3 client/python/make_protos.py FOLDER

FOLDER gets `hearth/v1`. Builds of the package (hatch_build.py) and tests (`use_tree`) call this
with folders of their own: the modules are never made in the source tree. It needs grpcio-tools.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A source distribution has the protos next to this file, a clone in proto/.
PROTO_ROOT = next(root for root in (HERE / "proto", HERE.parents[1] / "proto") if root.is_dir())
PROTOS = sorted((PROTO_ROOT / "hearth" / "v1").glob("*.proto"))


def make(root: Path) -> None:
    """Writes the package `hearth/v1` below `root`; raises where protoc fails."""
    package = root / "hearth" / "v1"
    package.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTO_ROOT}",
                    f"--python_out={root}", f"--pyi_out={root}", *map(str, PROTOS)], check=True)
    (package / "__init__.py").write_text(
        '"""The messages of the daemon\'s API. Made by make_protos.py."""\n', encoding="utf-8")


def use_tree() -> None:
    """Lets this process, and all that it starts, import the package of this tree, with modules
    of the API that are made for the life of this process (none without grpcio-tools)."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # Workers of a test run inherit its modules.
        made = tempfile.TemporaryDirectory(prefix="hearth-api-")
        atexit.register(made.cleanup)
        if importlib.util.find_spec("grpc_tools"):
            make(Path(made.name))
        paths = [str(HERE), made.name, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
