"""The scripts look at the machine before they install anything."""

from __future__ import annotations

import os
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
