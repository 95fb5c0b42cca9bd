"""The binary wheel: what is in it, and its life in environments of its own and in bare Debians."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from chroots import bare_debian
from daemon import Daemon, run
from jobs import QUICK

_ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'kVersion\[\] = "(.*)"',
                    (_ROOT / "engine/base/version.h").read_text(encoding="utf-8"))[1]
MOST_BYTES = 30 << 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, request):
    for package in ("grpc_tools", "hatchling", "torch"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    # In tier 1 all is built, and other tests run the binaries, which a build replaces. 0 is what
    # --no-build-isolation means.
    built_before = "no" if request.config.getoption("--full") else "yes"
    built = run([str(_ROOT / "deploy/python/build_wheel.sh"), str(tmp_path_factory.mktemp("wheel"))],
                timeout=3600, env={**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1",
                                   "PIP_NO_BUILD_ISOLATION": "0", "HEARTH_BUILT": built_before})
    assert built.code == 0, built.out + built.err
    return Path(built.out.splitlines()[-1])


class Environment:
    """A virtual environment with the wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (self.packages,) = folder.glob("lib/python*/site-packages")
        subprocess.run([sys.executable, "-m", "pip", "--python", str(folder / "bin/python"),
                        "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)

    def see_packages_of_the_tests(self) -> None:
        """LibTorch's among them."""
        (self.packages / "of_the_tests.pth").write_text(sysconfig.get_path("purelib"))

    def run(self, *command, path=()):
        """Runs a program of the environment, which is first in a path of little else."""
        folders = [self.folder / "bin", *path, "/usr/bin", "/bin"]
        return run([str(self.folder / "bin" / command[0]), *map(str, command[1:])],
                   env={"PATH": ":".join(map(str, folders)), "HOME": str(self.folder)})


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("environment"), wheel)
    made.see_packages_of_the_tests()
    return made


@pytest.fixture
def daemon_of_the_wheel(environment, graph_folder, tmp_path):
    class WheelDaemon(Daemon):
        binary = str(environment.folder / "bin/hearthd")

    started = WheelDaemon(tmp_path / "data")
    started.hearth("dataset", "import", "planted", "--source", str(graph_folder))
    yield started
    started.stop()


def test_what_is_in_it(wheel):
    assert wheel.name == f"hearth_gnn-{VERSION}-py3-none-manylinux_2_34_x86_64.whl"
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as opened:
        files = set(opened.namelist())
        metadata = opened.read(f"hearth_gnn-{VERSION}.dist-info/METADATA").decode()
    data = f"hearth_gnn-{VERSION}.data"
    assert f"\nVersion: {VERSION}\n" in metadata
    assert f"\nRequires-Dist: torch=={version('torch')}; extra == 'daemon'" in metadata
    for file in ("hearth/__init__.py", "hearth/py.typed", "hearth/v1/jobs_pb2.py",
                 f"{data}/scripts/hearth", f"{data}/scripts/hearthd",
                 f"{data}/scripts/hearth-piece",
                 f"{data}/data/lib/hearth-gnn/hearthd",
                 f"{data}/data/lib/hearth-gnn/libgrpc++.so.1.51",
                 f"{data}/data/share/doc/hearth/guide/index.html",
                 f"{data}/data/share/doc/hearth/licenses/libprotobuf32"):
        assert file in files
    libraries = {Path(file).name for file in files if "/lib/hearth-gnn/" in file}
    strangers = [name for name in libraries
                 if re.match(r"lib(c|m|stdc\+\+|gcc_s|torch.*|c10|cudart|gomp)\.so", name)]
    assert not strangers


def test_all_say_the_same_version(environment, daemon_of_the_wheel):
    assert environment.run("hearth", "--version").out == f"hearth {VERSION}\n"
    assert environment.run("hearthd", "--version").out == f"hearthd {VERSION}\n"
    # hearth becomes hearth-piece, which lies beside it.
    for command in (["hearth-piece"], ["hearth", "piece"]):
        assert environment.run(*command, "--version").out == f"hearth-piece {VERSION}\n"
    status = environment.run("hearth", "--server", daemon_of_the_wheel.address, "status",
                             "--output", "json")
    assert status.json["version"] == VERSION
    asked = environment.run("python", "-c", "import hearth; print(hearth.__version__,"
                            f" hearth.Client('{daemon_of_the_wheel.address}').status().version)")
    assert asked.out == f"{VERSION} {VERSION}\n", asked.err


def test_its_daemon_gives_the_digest_of_the_one_built_here(daemon, daemon_of_the_wheel):
    digests = [each.json(*QUICK)["report"]["loss_digest"] for each in (daemon, daemon_of_the_wheel)]
    assert digests[0] == digests[1]


def pretend_torch(environment, version):
    (environment.packages / "torch").mkdir()
    (environment.packages / "torch/__init__.py").write_text("raise ImportError('not to be imported')")
    info = environment.packages / f"torch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


def test_an_environment_with_another_torch_finds_the_daemon_on_the_path(
        wheel, environment, graph_folder, tmp_path):
    other = Environment(tmp_path / "other", wheel)
    alone = other.run("hearthd", "--version")
    assert alone.code == 1 and "needs torch" in alone.err and "has none" in alone.err
    pretend_torch(other, "2.9.1")
    alone = other.run("hearthd", "--version")
    assert alone.code == 1 and "has 2.9.1: install hearth-gnn[daemon]" in alone.err
    # As `pipx install` does it.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "hearthd").symlink_to(environment.folder / "bin/hearthd")
    assert other.run("hearthd", "--version", path=[tools]).out == f"hearthd {VERSION}\n"
    trained = other.run("hearth", "run", "--dataset", "planted", "--source", graph_folder,
                        "--data-dir", tmp_path / "data", *QUICK[3:], "--output", "json",
                        path=[tools])
    assert trained.code == 0, trained.err
    assert trained.json["report"]["loss_digest"]


def test_two_environments_without_a_fitting_torch_end(wheel, tmp_path):
    first, second = (Environment(tmp_path / name, wheel) for name in ("first", "second"))
    ended = first.run("hearthd", "--version", path=[second.folder / "bin"])
    assert ended.code == 1 and "has none" in ended.err


# What a new user types, with a folder of numpy files.
_GRAPH = """
import numpy as np
random = np.random.default_rng(0)
labels = random.integers(0, 4, 4000)
np.save("edge_index.npy", random.integers(0, 4000, (2, 30000)))
np.save("node_feat.npy", (random.normal(size=(4000, 32)) + labels[:, None]).astype("float32"))
np.save("node_label.npy", labels)
for name, part in zip(("train", "valid", "test"), np.split(random.permutation(4000), [2400, 3200])):
    np.save(f"{name}_idx.npy", np.sort(part))
"""
_FIRST_JOB = """
. /root/hearth/bin/activate
hearth run --dataset mine --source /root/graph --model sage --epochs 3 --seed 1 \
  --to /root/model --output json
"""


@pytest.mark.full("wheel")
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_new_user_on_a_bare_debian(wheel, suite, tmp_path):
    with bare_debian(tmp_path, suite) as bare:
        bare.run("apt-get install -y -qq --no-install-recommends python3-venv")
        shutil.copy(wheel, bare.root / "root")
        bare.run("python3 -m venv /root/hearth")
        bare.pip_install("/root/hearth/bin/pip", f"/root/{wheel.name}[daemon,datasets]")
        (bare.root / "root/graph").mkdir()
        bare.run(f"cd /root/graph && /root/hearth/bin/python -c '{_GRAPH}'")
        shown = bare.run(_FIRST_JOB, HOME="/root")
        assert re.search(r'"loss_digest": *"\w{64}"', shown)
        assert (bare.root / "root/model/model.safetensors").exists()
