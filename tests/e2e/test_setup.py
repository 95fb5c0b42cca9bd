"""The scripts look at the machine before they install anything, and tell how a build goes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

_SETUP = Path(__file__).resolve().parents[2] / "deploy/setup.sh"
_KERNEL_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}.65.06  Sun Jul 27 2025\n"
_OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}.163.01  Release\n"
_COMPILER = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"


def say(command: str, **environment: str) -> str:
    return subprocess.run(["bash", "-c", f'source "{_SETUP}"; {command}'], check=True, text=True,
                          capture_output=True, env={**os.environ, **environment}).stdout.strip()


@pytest.mark.parametrize("module", [_KERNEL_MODULE, _OPEN_MODULE], ids=["closed", "open"])
def test_the_version_of_the_driver(tmp_path, module):
    version = tmp_path / "version"
    version.write_text(module.format(570) + _COMPILER)
    assert say("nvidia_driver", NVIDIA_VERSION_FILE=str(version)) == "570"


def test_nothing_is_installed_for_a_gpu_that_cannot_be_used(tmp_path):
    absent = {"NVIDIA_VERSION_FILE": str(tmp_path / "absent")}
    assert say("nvidia_driver", **absent) == ""
    assert "no NVIDIA driver" in say("prepare_gpu", **absent)
    version = tmp_path / "version"
    version.write_text(_KERNEL_MODULE.format(579))
    old = say("prepare_gpu", NVIDIA_VERSION_FILE=str(version))
    assert "579 is older than 580" in old
    version.write_text(_KERNEL_MODULE.format(580))
    no_toolkit = say("prepare_gpu", NVIDIA_VERSION_FILE=str(version),
                     CUDA_HOME=str(tmp_path / "cuda"))
    assert "no CUDA toolkit" in no_toolkit


_BAZEL = """#!/bin/bash
if [[ $1 == aquery ]]; then
  yes '  Mnemonic: CppCompile' | head -n 1500
  touch "$0.counted"
  exit
fi
[[ -e $0.counted ]] || echo "counting waits for this build"
cat <<'EOF'
Starting local Bazel server and connecting to it...
Analyzing: 12 targets (1 packages loaded, 0 targets configured)
INFO: Analyzed 12 targets (5 packages loaded, 18 targets configured).
[203 / 208] Compiling engine/w.cc; 4s local ... (2 actions, 1 running)
[1,204 / 2,345] Compiling engine/x.cc; 4s local ... (2 actions, 1 running)
INFO: From Compiling engine/y.cc:
engine/y.cc:3: note: something
ERROR: engine/z.cc failed
INFO: Elapsed time: 26.314s, Critical Path: 4.03s
EOF
exit 7
"""


def test_a_build_without_a_terminal_tells_how_far_it_is(tmp_path):
    bazel = tmp_path / "bazel"
    bazel.write_text(_BAZEL)
    bazel.chmod(0o755)
    lines = say("build_aloud //... || echo status $?",
                PATH=f"{tmp_path}:{os.environ['PATH']}").splitlines()
    # Where Bazel knows of fewer steps than there are files, these count.
    for steps in ("203 of 1500", "1204 of 2345"):
        assert re.fullmatch(steps + r" steps done after \d+:\d\d minutes",
                            lines.pop(0).strip())
    assert lines == ["INFO: From Compiling engine/y.cc:",
                     "engine/y.cc:3: note: something", "ERROR: engine/z.cc failed", "status 7"]


def test_how_long_a_build_takes(tmp_path):
    nproc = tmp_path / "nproc"
    for cores, minutes in ((1, 13), (2, 7), (8, 2), (64, 1)):
        nproc.write_text(f"#!/bin/sh\necho {cores}\n")
        nproc.chmod(0o755)
        assert say("build_minutes", PATH=f"{tmp_path}:{os.environ['PATH']}") == str(minutes)
