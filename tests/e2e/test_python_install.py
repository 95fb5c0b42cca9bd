"""The Python client, installed from a clone of HEAD in each way that pip knows."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
pytest.importorskip("hatchling", reason="hatchling is not installed")

_ROOT = Path(__file__).resolve().parents[2]
_CALL = ("import hearth, hearth.v1.jobs_pb2; "
         "print(hearth.__file__, hearth.Client({!r}).status().data_dir)")


def output_of(*command: str, cwd: Path, **variables: str) -> str:
    """Standard output of a command that gets none of the variables of the tests."""
    done = subprocess.run(command, cwd=cwd, check=False, text=True, capture_output=True,
                          env={"PATH": "/usr/bin:/bin", "PIP_NO_CACHE_DIR": "1", **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def call(python: Path, daemon, cwd: Path) -> Path:
    """Has the daemon say its data directory; returns where the package was imported from."""
    package, data_dir = output_of(str(python), "-B", "-c", _CALL.format(daemon.address),
                                  cwd=cwd).split()
    assert data_dir == str(daemon.data_dir)
    return Path(package)


def left_in(clone: Path) -> str:
    return output_of("git", "status", "--porcelain", "--ignored", cwd=clone)


@pytest.fixture
def clone(tmp_path):
    output_of("git", "clone", "--quiet", str(_ROOT), "clone", cwd=tmp_path)
    return tmp_path / "clone"


@pytest.fixture
def python(tmp_path):
    """An environment of its own that also sees the packages of the one that runs the test, so
    that nothing is downloaded."""
    output_of(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    (packages / "of_the_tests.pth").write_text(sysconfig.get_path("purelib"))
    return tmp_path / "venv/bin/python"


@pytest.mark.parametrize("way", ["wheel", "sdist", "editable"])
def test_an_install_from_a_clone(daemon, clone, python, tmp_path, way):
    package = {"wheel": ["./client/python"], "editable": ["--editable", "./client/python"],
               "sdist": []}[way]
    if way == "sdist":
        output_of(str(python), "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path),
                  cwd=clone / "client/python")
        package = [str(sdist) for sdist in tmp_path.glob("hearth_gnn-*.tar.gz")]
    output_of(str(python), "-m", "pip", "install", "--no-index", "--no-deps",
              "--no-build-isolation", *package, cwd=clone)
    assert left_in(clone) == ""
    imported_from = call(python, daemon, tmp_path)
    assert (clone in imported_from.parents) == (way == "editable")
    assert left_in(clone) == ""


@pytest.mark.full("documents")
def test_an_install_with_downloads(daemon, clone, tmp_path):
    """Nothing but what `pip install` brings is there."""
    output_of(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    output_of(str(python), "-m", "pip", "install", "./client/python", cwd=clone,
              **{name: value for name, value in os.environ.items() if name.startswith("PIP_")})
    call(python, daemon, tmp_path)
    assert left_in(clone) == ""
