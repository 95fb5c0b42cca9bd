"""What READMEs and the guide tell their readers to type, block by block, as a reader would.

A fenced block in `sh` or `python` is run; blocks in other languages show something. In each
document the blocks run in their order, in a clone of HEAD of its own with a home of its own: what
one block exports or defines, a later one has. A comment right before a block says where it is run
instead:

    <!-- full: REASON -->       in the part "documents" of tier 2 alone
    <!-- not run: REASON -->    nowhere; it is counted as skipped, with the reason
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional

import pytest

from daemon import HEARTH, HEARTHD
from graphs import planted_graph

_ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = ("sh", "python")
_SHOWN = ("text", "json", "yaml", "diff")
BLOCK_SECONDS = 600  # A bound for a block that hangs, not a measure of speed.
FULL_SECONDS = 3600


class Block(NamedTuple):
    document: str
    line: int
    language: str
    text: str
    mark: str  # "", "full" or "not run"
    reason: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


_FENCE = re.compile(r"\s*```(.*)$")
_MARK = re.compile(r"<!-- (full|not run): (.+) -->$")


def blocks_of(document: str, text: str) -> Iterator[Block]:
    lines = text.splitlines()
    start = None
    for i, line in enumerate(lines):
        if start is None and (fence := _FENCE.match(line)):
            start, language = i, fence[1].strip()
            mark = _MARK.match(lines[i - 1] if i else "")
        elif start is not None and line.strip() == "```":
            yield Block(document, start + 1, language, "\n".join(lines[start + 1:i]) + "\n",
                        *(mark.groups() if mark else ("", "")))
            start = None
        elif start is None and line.startswith("    ") and i and not lines[i - 1].strip():
            yield Block(document, i + 1, "indented", line, "", "")


def documents() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=_ROOT, check=True, text=True,
                            capture_output=True)
    return listed.stdout.split()


BLOCKS = [block for document in documents()
          for block in blocks_of(document, (_ROOT / document).read_text(encoding="utf-8"))]

# What stands in the documents, and what is run instead. {data} is a folder of the test, {port}
# a free port.
_SUBSTITUTES = (
    # Folders of a reader's machine.
    (r"(?<![\w./~])/(data|srv|backups|nvme\d|local)\b", r"{data}/\1"),
    # Other machines are this one, and other users' ports are not ours.
    (r"scp (\S+:)(\S+) \1(\S+) \.", r"cp \2 \3 {data} && cd {data}"),
    (r"gpu-box", "localhost"),
    (r":7600\b", ":{port}"),
    # A daemon serves in the background while the next commands are run.
    (r"(?m)^((\S*/)?hearthd) --", r"serve \1 --"),
    (r"systemctl stop hearthd", "stop_serving"),
    # Searches of a few short trials.
    (r"\b(epochs|trials|n_trials)([= ]\s*|\": )(27|50|9)\b", r"\1\g<2>3"),
    (r"num_samples=27", "num_samples=3"),
    # PyTorch Geometric's reference, in minutes.
    (r"\bVENV/bin/python\b", "python3"),
    (r"\bDIR\b", "{data}/DIR"),
    (r"--model sage --seeds 1,2,3", "--model sage --seeds 1 --epochs 1 --trimmed"),
    (r"(?<=pyg_relational_reference.py)", " --models rgcn --seeds 1 --epochs 1"),
)

_PRELUDE = r"""
stop_serving() {
  kill "$(<"$STATE/pid")"
  tail --pid="$(<"$STATE/pid")" -s 0.05 -f /dev/null
  rm "$STATE/pid" "$STATE/address"
}
serve() {
  [[ ! -f $STATE/pid ]] || stop_serving
  "$@" --metrics-listen 127.0.0.1:0 --address-file "$STATE/address" &>"$STATE/log" &
  echo $! >"$STATE/pid"
  until [[ -f $STATE/address ]]; do
    kill -0 $! || { cat "$STATE/log"; return 1; }
    sleep 0.05
  done
}
set -euo pipefail
[[ ! -f $STATE/environment ]] || source "$STATE/environment"
trap 'export -p >"$STATE/environment"' EXIT
"""

# Runs the blocks that come on standard input in one namespace, `await` outside of functions
# included, and answers each with its traceback, or nothing.
_INTERPRETER = r"""
import ast, asyncio, inspect, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
names, loop = {"__name__": "__main__"}, asyncio.new_event_loop()
for line in sys.stdin:
    name, text = json.loads(line)
    try:
        code = compile(text, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            loop.run_until_complete(result)
        answer = ""
    except BaseException:
        answer = traceback.format_exc()
    print(json.dumps(answer), file=answers, flush=True)
"""


def free_port() -> int:
    """One that nobody is given who asks for any."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(1024, first), 100):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("0.0.0.0", port))
            return port
    raise AssertionError("found no free port")


class Reader:
    """Somebody who follows one document, with a clone, a home and small data.

    `shared` is a folder of all readers, for what is the same for many and takes time to make."""

    def __init__(self, folder: Path, shared: Path, full: bool) -> None:
        self.folder = folder
        self.shared = shared
        self.full = full
        self.data = folder / "data"
        self.clone = folder / "clone"
        for name in ("home", "state", "data"):
            (folder / name).mkdir()
        subprocess.run(["git", "clone", "--quiet", str(_ROOT), str(self.clone)], check=True)
        self._venv = folder / "venv"
        self._log = folder / "state/python.log"
        self._interpreter: Optional[subprocess.Popen] = None
        self._port = free_port()
        self._environment = {
            "HOME": str(folder / "home"), "STATE": str(folder / "state"), "USER": "reader",
            "HEARTH_CACHE": os.environ.get("HEARTH_CACHE", str(Path.home() / ".cache/hearth")),
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
        if full:  # Downloads go the way that this machine has for them.
            self._environment = {name: value for name, value in os.environ.items()
                                 if not name.startswith(("HEARTH", "PYTHON", "PYTEST"))
                                 } | self._environment
        else:  # 0 is what --no-build-isolation means here.
            self._environment |= {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
        self._provide_binaries()

    def _provide_binaries(self) -> None:
        """Those of the tree that runs the test, where a build in the clone would put them."""
        for place, binary in (("server", HEARTHD), ("client", HEARTH)):
            (self.folder / "built" / place).mkdir(parents=True)
            (self.folder / "built" / place / Path(binary).name).symlink_to(binary)
        (self.clone / "bazel-bin").symlink_to(self.folder / "built")

    def install_hearth(self) -> None:
        """hearth and hearthd are on the path, as the Debian package has them."""
        self._put_on_path(self.folder / "built/client")
        self._put_on_path(self.folder / "built/server")

    def make_python(self) -> None:
        """An environment that also sees the packages of the one that runs the test."""
        for package in ("grpc_tools", "hatchling", "pandas", "torch_geometric"):
            if not importlib.util.find_spec(package):
                pytest.skip(f"{package} is not installed")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self._venv], check=True)
        (packages,) = self._venv.glob("lib/python*/site-packages")
        (packages / "of_the_tests.pth").write_text(sysconfig.get_path("purelib"))
        pip = self._venv / "bin/pip"
        pip.write_text(f"#!/bin/sh\nexec {self._venv}/bin/python -m pip \"$@\"\n")
        pip.chmod(0o755)
        self._put_on_path(self._venv / "bin")

    def install_client(self) -> None:
        """The Python client is installed, in an environment that readers share."""
        self._venv = self.shared / "venv"
        if self._venv.exists():
            self._put_on_path(self._venv / "bin")
        else:
            self.make_python()
            subprocess.run([self._venv / "bin/pip", "install", "--quiet", "./client/python"],
                           cwd=self.clone, env=self._environment, check=True)

    def _put_on_path(self, folder: Path) -> None:
        self._environment["PATH"] = f"{folder}:{self._environment['PATH']}"

    def write_papers(self, *places: Path) -> None:
        """A numpy folder like ogbn-arxiv's: 128 features, 40 classes."""
        graph = planted_graph(num_nodes=400, dim=128, degree=5, num_classes=40)
        for place in places or [self.data / "data/papers"]:
            graph.write(place)

    def run(self, language: str, text: str, name: str, seconds: int) -> None:
        for pattern, replacement in _SUBSTITUTES:
            text = re.sub(pattern, replacement, text)
        text = text.replace("{data}", str(self.data)).replace("{port}", str(self._port))
        if language == "python":
            self._run_python(text, name, seconds)
        else:
            self.run_shell(text, seconds)

    def run_shell(self, text: str, seconds: int = BLOCK_SECONDS) -> None:
        done = subprocess.run(["bash", "-c", _PRELUDE + text], cwd=self.clone, check=False,
                              env=self._environment, timeout=seconds, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"status {done.returncode} of\n{text}\n{done.stdout}"

    def _run_python(self, text: str, name: str, seconds: int) -> None:
        if not self._interpreter:
            with open(self._log, "ab") as log:
                self._interpreter = subprocess.Popen(
                    [str(self._venv / "bin/python"), "-c", _INTERPRETER], text=True,
                    cwd=self.clone, env=self._environment, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=log)
        print(json.dumps([name, text]), file=self._interpreter.stdin, flush=True)
        answers, _, _ = select.select([self._interpreter.stdout], [], [], seconds)
        if not answers:
            self._interpreter.kill()
        answer = json.loads(self._interpreter.stdout.readline() or '"the program was ended"')
        assert not answer, f"{text}\n{answer}\n{self._log.read_text()}"

    def close(self) -> None:
        if self._interpreter:
            self._interpreter.communicate()
        if (self.clone / "bazel-out").exists():
            self.run_shell("bazel shutdown")
        pid = self.folder / "state/pid"
        if pid.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGKILL)


# What the converters are shown, in the folder where the reader works.
_SOURCES = r"""python3 - <<'END'
import numpy, pyarrow, pyarrow.parquet, torch, torch_geometric
papers = {"id": list(range(1, 11)), "year": [2001.0] * 10, "label": ["a", "b"] * 5,
          "split": ["train"] * 6 + ["valid"] * 2 + ["test"] * 2}
pyarrow.parquet.write_table(pyarrow.table(papers), "papers.parquet")
pyarrow.parquet.write_table(pyarrow.table({"src": [1, 2], "dst": [2, 3]}), "cites.parquet")
edges, features, labels = [[0, 1, 2], [1, 2, 3]], numpy.eye(4, dtype="float32"), [0, 1, 0, 1]
masks = {name: numpy.eye(4, dtype=bool)[[node]]
         for node, name in enumerate(("train_masks", "val_masks", "test_masks"))}
numpy.savez("roman_empire.npz", edges=numpy.transpose(edges), node_features=features,
            node_labels=labels, **masks)
torch.save(torch_geometric.data.Data(
    x=torch.tensor(features), edge_index=torch.tensor(edges), y=torch.tensor(labels),
    **{name[:-1]: torch.tensor(mask[0]) for name, mask in masks.items()}), "data.pt")
END
printf 'id,age\n7,30\n8,40\n' >authors.csv
printf 'src,dst\n7,1\n8,3\n' >writes.csv
"""


def install(reader: Reader) -> None:
    """hearth and hearthd are installed, and there is a graph to import."""
    reader.install_hearth()
    reader.write_papers()


def seed(reader: Reader, data_dir: Path) -> None:
    """A data directory with the dataset papers and a job of it, train-2."""
    install(reader)
    made = reader.shared / "hearth"
    if not made.exists():
        reader.run("sh", f"""
            export HEARTH_HOME={reader.folder}/hearth
            serve hearthd --data-dir $HEARTH_HOME
            hearth dataset import papers --source /data/papers
            hearth train --dataset papers --epochs 1
            stop_serving
            mv $HEARTH_HOME {made}
            unset HEARTH_HOME
            """, "", BLOCK_SECONDS)
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", made, data_dir], check=True)


def follow_readme(reader: Reader) -> None:
    reader.install_hearth()
    reader.write_papers()


def follow_guide(reader: Reader) -> None:
    """A daemon serves where hearth looks for it; it has trained on papers."""
    seed(reader, reader.folder / "home/.hearth")
    reader.run("sh", "hearthd --data-dir ~/.hearth --listen 127.0.0.1:7600\n", "", BLOCK_SECONDS)


def follow_python(reader: Reader) -> None:
    reader.install_client()  # First: later shells have the PATH of the first one.
    follow_guide(reader)


def follow_python_tools(reader: Reader) -> None:
    follow_python(reader)
    if reader.full:
        reader.run_shell("pip install --quiet './client/python[optuna,ray]'", FULL_SECONDS)


def follow_converters(reader: Reader) -> None:
    follow_python(reader)
    sources = reader.shared / "sources"
    if not sources.exists():
        reader.run_shell(f"mkdir {sources}; cd {sources}\n{_SOURCES}")
    shutil.copytree(sources, reader.clone, dirs_exist_ok=True)


def follow_typed_graphs(reader: Reader) -> None:
    """The dataset that the page about tables makes."""
    follow_converters(reader)
    page = "client/guide/tables.md"
    for block in blocks_of(page, (_ROOT / page).read_text(encoding="utf-8")):
        reader.run(block.language, block.text, str(block), BLOCK_SECONDS)


def follow_remote(reader: Reader) -> None:
    """A graph in the reader's folder, and a daemon that knows nothing."""
    reader.install_hearth()
    reader.write_papers(reader.clone / "papers")
    reader.run_shell("serve hearthd --data-dir ~/.hearth")


def follow_resume(reader: Reader) -> None:
    """A cancelled job, train-3; no run is long enough for it to end first."""
    follow_guide(reader)
    reader.run_shell("hearth train --dataset papers --strategy gnndrive --epochs 100000 --detach\n"
                     "hearth job cancel train-3; ! hearth job watch train-3")


def follow_backup(reader: Reader) -> None:
    seed(reader, reader.data / "srv/hearth")
    (reader.data / "backups").mkdir()
    reader.run("sh", "hearthd --data-dir /srv/hearth\n", "", BLOCK_SECONDS)


# What a document takes for granted.
_PREPARATIONS: dict[str, Callable[[Reader], None]] = {
    "README.md": follow_readme,
    "tests/accuracy/README.md": Reader.make_python,
    "client/guide/backup.md": follow_backup,
    "client/guide/convert.md": follow_converters,
    "client/guide/example-graphs.md": follow_python,
    "client/guide/first-job.md": install,
    "client/guide/install.md": Reader.make_python,
    "client/guide/own-model.md": follow_python,
    "client/guide/own-model-more.md": follow_python,
    "client/guide/own-model-remote.md": follow_python,
    "client/guide/pyg.md": follow_python,
    "client/guide/python-calls.md": follow_python,
    "client/guide/python-tools.md": follow_python_tools,
    "client/guide/python.md": follow_python,
    "client/guide/remote.md": follow_remote,
    "client/guide/resume.md": follow_resume,
    "client/guide/slurm.md": install,
    "client/guide/tables.md": follow_converters,
    "client/guide/typed-graphs.md": follow_typed_graphs,
}


def prepare(reader: Reader, document: str) -> None:
    other = follow_guide if document.startswith("client/guide/") else Reader.install_hearth
    _PREPARATIONS.get(document, other)(reader)


@pytest.fixture(scope="module")
def readers(tmp_path_factory, request) -> Iterator[Callable[[str], Reader]]:
    full = request.config.getoption("--full") is not None
    shared = tmp_path_factory.mktemp("shared")
    with contextlib.ExitStack() as closing:
        @functools.cache
        def reader_of(document: str) -> Reader:
            reader = Reader(tmp_path_factory.mktemp("reader"), shared, full)
            closing.callback(reader.close)
            prepare(reader, document)
            return reader

        yield reader_of


COMMANDS = [block for block in BLOCKS if block.language in _COMMANDS]


def try_block(readers: Callable[[str], Reader], block: Block, seconds: int) -> None:
    if block.mark == "not run":
        pytest.skip(block.reason)
    readers(block.document).run(block.language, block.text, str(block), seconds)


@pytest.mark.parametrize("block", [one for one in COMMANDS if one.mark != "full"], ids=str)
def test_block(readers, block):
    try_block(readers, block, BLOCK_SECONDS)


@pytest.mark.full("documents")
@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_block_with_downloads(readers, block):
    try_block(readers, block, FULL_SECONDS)


def test_every_block_says_what_it_is():
    assert {block.document for block in COMMANDS} >= {"README.md", "client/guide/first-job.md",
                                                      "client/guide/python.md"}
    unknown = [str(block) for block in BLOCKS if block.language not in _COMMANDS + _SHOWN]
    assert not unknown, f"fence these blocks, as one of {_COMMANDS + _SHOWN}"
    idle = [str(block) for block in BLOCKS if block.mark and block.language in _SHOWN]
    assert not idle, "these blocks are marked, and no commands"


def test_blocks_are_found_with_their_marks():
    text = "Words\n\n```sh\nls\n```\n<!-- full: slow -->\n```python\nx = [\n    1]\n```\n\n    ls\n"
    assert list(blocks_of("x.md", text)) == [
        Block("x.md", 3, "sh", "ls\n", "", ""),
        Block("x.md", 7, "python", "x = [\n    1]\n", "full", "slow"),
        Block("x.md", 12, "indented", "    ls", "", "")]
