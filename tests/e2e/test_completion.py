"""Completion in a real bash and a real zsh, and the manual pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from daemon import HEARTH, run
from jobs import QUICK
from test_transfer import Sender, announcement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def job(daemon):
    return daemon.json(*QUICK)["id"]


@pytest.fixture(scope="module")
def upload(daemon, graph_folder):
    begun = Sender(daemon).begin(announcement(graph_folder, "begun")).id
    yield begun
    daemon.hearth("dataset", "uploads", "delete", begun)


@pytest.fixture
def folder(tmp_path):
    """A folder with the program under its name, and the scripts."""
    (tmp_path / "hearth").symlink_to(Path(HEARTH).resolve())
    for shell, name in (("bash", "hearth.bash"), ("zsh", "_hearth")):
        (tmp_path / name).write_text(run([HEARTH, "completion", shell]).out)
    return tmp_path


def bash(folder, line):
    """What bash would offer behind `line`."""
    script = f"""
        source {folder}/hearth.bash
        [[ $(complete -p hearth) == *_hearth* ]] || exit 1
        COMP_LINE=$1 COMP_POINT=${{#1}}
        _hearth
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = run(["bash", "-euc", script, "bash", line],
               env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    assert done.code == 0, done
    return done.out.split()


def zsh(folder, line):
    """What zsh would offer: its own machinery, with what it is given to describe caught."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = f"""
        autoload -Uz compinit && compinit -D -d {folder}/dump
        fpath=({folder} $fpath)
        autoload -Uz _hearth
        compset() {{ : }}
        _files() {{ print -r -- FILES }}
        _describe() {{ print -rl -- ${{(P)2}} }}
        words=("${{(@s: :)1}}")
        CURRENT=$#words
        _hearth
    """
    done = run(["zsh", "-fc", script, "zsh", line],
               env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return [one.split(":")[0] for one in done.out.splitlines()]


SHELLS = pytest.mark.parametrize("shell", [bash, zsh])


@SHELLS
def test_commands_flags_and_values(shell, folder):
    assert {"train", "run", "top", "doctor"} <= set(shell(folder, "hearth "))
    assert shell(folder, "hearth comp") == ["completion"]
    assert set(shell(folder, "hearth train --ep")) == {"--epochs"}
    assert {"gnndrive", "mmap"} <= set(shell(folder, "hearth train --strategy "))
    assert shell(folder, "hearth train --strategy=gn") == ["gnndrive"]
    assert shell(folder, "hearth completion z") == ["zsh"]


@SHELLS
def test_names_that_the_daemon_knows(shell, folder, daemon, job, upload):
    at = f"hearth --server {daemon.address}"
    assert shell(folder, f"{at} train --dataset pl") == ["planted"]
    assert job in shell(folder, f"{at} job show ")
    assert shell(folder, f"{at} job show train-") == [job]
    assert shell(folder, f"{at} dataset show ") == ["planted"]
    assert shell(folder, f"{at} dataset uploads delete ") == [upload]


@SHELLS
def test_without_a_daemon_nothing_is_offered_and_nobody_waits(shell, folder):
    offered = shell(folder, "hearth --server unix:/nowhere.sock job show ")
    assert offered in ([], ["FILES"])


def test_files_are_the_shells_business(folder):
    assert zsh(folder, "hearth train --file ") == ["FILES"]
    assert bash(folder, "hearth train --file ") == []


def test_a_shell_that_is_none_is_refused():
    assert run([HEARTH, "completion", "csh"]).code == 2


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Those of the programs that bazel has built last."""
    writers = ROOT / "bazel-bin/client/cli/write_man_pages", \
        ROOT / "bazel-bin/server/write_man_page"
    for writer in writers:
        if not writer.exists():
            pytest.skip(f"{writer} is not built")
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([writers[0], folder], check=True)
    page = subprocess.run([writers[1]], check=True, capture_output=True).stdout
    (folder / "hearthd.8").write_bytes(page)
    return folder


def test_man_has_nothing_to_say_against_its_pages(pages):
    if shutil.which("man") is None:
        pytest.skip("man-db is not installed")
    names = {page.name for page in pages.iterdir()}
    assert {"hearth.1", "hearth-train.1", "hearth-dataset.1", "hearthd.8"} <= names
    for page in pages.iterdir():
        shown = run(["man", "--warnings", "-l", str(page)],
                    env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"})
        assert shown.code == 0 and shown.err == "", (page, shown.err)
        assert page.stem.upper() in shown.out.upper()


def test_the_pages_are_those_of_the_help(pages):
    """Each command that the help names has a page, and each flag its place there."""
    overview = (pages / "hearth.1").read_text()
    for line in run([HEARTH, "--help"]).out.split("Subcommands:")[1].splitlines():
        if line.startswith("  ") and line[2] != " ":
            command = line.split()[0]
            assert f"\\fB{command}\\fR" in overview
            page = (pages / f"hearth-{command}.1").read_text().replace("\\-", "-")
            for word in run([HEARTH, command, "--help"]).out.replace(",", " ").split():
                if word.startswith("--") and word[2:].replace("-", "").isalnum():
                    assert word in page, (command, word)
