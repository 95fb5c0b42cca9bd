#!/usr/bin/env python3
"""Downloads the wheels named in a hash-pinned requirements file and keeps
what Hearth links against. Prints the folder that holds `lib` and `include`.

The folder is named after the requirements, made under a temporary name and
renamed when whole: an interrupted run leaves nothing that looks finished.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

LIBRARIES = {
    "libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13",
    "libcupti.so.13",
}


def wanted(name: str) -> str | None:
    """Where a wheel's member goes, or None if it is not needed."""
    path = pathlib.PurePosixPath(name)
    if path.name in LIBRARIES and path.parent.name == "lib":
        return f"lib/{path.name}"
    # The wheel's own copy of protobuf would shadow the system's.
    if name.startswith("torch/include/") and not name.startswith(
            "torch/include/google/"):
        return name.removeprefix("torch/")
    return None


def unpack(wheel: pathlib.Path, target: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            place = wanted(member.filename)
            if place is None or member.is_dir():
                continue
            path = target / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            if place.startswith("lib/"):
                path.chmod(0o755)


def download(requirements: pathlib.Path, target: pathlib.Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
         "--no-cache-dir", "--disable-pip-version-check", "--require-hashes",
         "--only-binary=:all:", "--python-version=3.11",
         "--implementation=cp", "--platform=manylinux_2_28_x86_64",
         "--platform=manylinux_2_25_x86_64", "--platform=manylinux2014_x86_64",
         "--platform=manylinux_2_17_x86_64",
         "--dest", str(target), "--requirement", str(requirements)],
        check=True, stdout=sys.stderr)


def main() -> None:
    requirements = pathlib.Path(sys.argv[1]).resolve()
    cache = pathlib.Path(
        os.environ.get("HEARTH_CACHE", pathlib.Path.home() / ".cache/hearth"))
    cache.mkdir(parents=True, exist_ok=True)
    recipe = requirements.read_bytes() + pathlib.Path(__file__).read_bytes()
    final = cache / f"libtorch-{hashlib.sha256(recipe).hexdigest()[:16]}"
    with open(cache / "libtorch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                wheels = pathlib.Path(scratch) / "wheels"
                tree = pathlib.Path(scratch) / "tree"
                download(requirements, wheels)
                for wheel in sorted(wheels.glob("*.whl")):
                    unpack(wheel, tree)
                missing = LIBRARIES - {p.name for p in (tree / "lib").iterdir()}
                if missing:
                    sys.exit(f"the wheels lack {sorted(missing)}")
                tree.rename(final)
    print(final)


if __name__ == "__main__":
    main()
