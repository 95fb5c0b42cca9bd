"""Bare Debians in chroots, made by mmdebstrap. They need root."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

SOURCES = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list"),
           *Path("/etc/apt/sources.list.d").glob("*.sources")]


class Chroot:
    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, script: str, **variables: str) -> str:
        """Runs a shell script as root of the chroot; nothing that it starts outlives it."""
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec",
             'mount -t proc proc "$0/proc"; exec chroot "$0" sh -ec "$1"', str(self.root), script],
            capture_output=True, text=True, check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                 "LC_ALL": "C.UTF-8", **variables})
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, package: Path) -> None:
        """Installs a file that is a Debian package."""
        shutil.copy(package, self.root / "tmp" / package.name)
        self.run(f"apt-get install -y -qq --no-install-recommends /tmp/{package.name}")

    def pip_install(self, pip: str, *packages: str) -> None:
        """Downloads go the way that this machine has for them."""
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", self.root / "root/trusted.crt")
        settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.run(f"{pip} install --quiet --no-cache-dir {shlex.join(packages)}",
                 **{**settings, "PIP_CERT": "/root/trusted.crt"})


@contextlib.contextmanager
def bare_debian(folder: Path, suite: str = "bookworm") -> Iterator[Chroot]:
    """A Debian with apt and little else, below `folder`; skips the test where it cannot be made."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap (Debian: mmdebstrap)")
    root = folder / suite
    sources = []
    for source in filter(Path.exists, SOURCES):
        sources.append(folder / f"{suite}-{source.name}")
        sources[-1].write_text(source.read_text().replace("bookworm", suite))
    made = subprocess.run(["mmdebstrap", "--variant=apt", suite, str(root), *map(str, sources)],
                          capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    try:
        bare = Chroot(root)
        bare.run("apt-get update -qq")
        yield bare
    finally:
        shutil.rmtree(root)
