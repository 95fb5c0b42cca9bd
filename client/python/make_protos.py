"""Makes the Python modules of the daemon's API, `hearth/v1`, of proto/hearth/v1.

    python3 client/python/make_protos.py

setup.py does so when the package is installed; the tests run it first. It needs
grpcio-tools, and nothing that it makes is kept in the repository.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO_ROOT = HERE.parents[1] / "proto"


def make(root: Path = HERE) -> None:
    """Writes the package `hearth/v1` below `root`; raises where protoc fails."""
    package = root / "hearth" / "v1"
    package.mkdir(parents=True, exist_ok=True)
    protos = sorted((PROTO_ROOT / "hearth" / "v1").glob("*.proto"))
    if not protos:
        raise FileNotFoundError(f"no protos in {PROTO_ROOT}: install from a clone of Hearth")
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTO_ROOT}",
                    f"--python_out={root}", f"--pyi_out={root}", *map(str, protos)], check=True)
    (package / "__init__.py").write_text(
        '"""The messages of the daemon\'s API. Made by make_protos.py."""\n', encoding="utf-8")


if __name__ == "__main__":
    make()
