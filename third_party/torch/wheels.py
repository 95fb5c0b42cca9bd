"""Folders of files taken from pinned Python wheels, kept for all clones of a machine."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Callable, Iterable, Optional

# The newest that a wheel may ask for, and older ones that wheels ask for by name.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_18",
              "manylinux2014", "manylinux_2_17", "manylinux2010", "manylinux_2_12")


def _unpack(wheel: pathlib.Path, place_of: Callable[[str], Optional[str]],
            target: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            place = None if member.is_dir() else place_of(member.filename)
            if place is None:
                continue
            path = target / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            if ".so" in path.name:
                path.chmod(0o755)


def _download(requirements: pathlib.Path, target: pathlib.Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
         "--no-cache-dir", "--disable-pip-version-check", "--require-hashes",
         "--only-binary=:all:", "--python-version=3.11", "--implementation=cp",
         *(f"--platform={platform}_x86_64" for platform in _PLATFORMS),
         "--dest", str(target), "--requirement", str(requirements)],
        check=True, stdout=sys.stderr)


def unpacked(name: str, requirements: pathlib.Path, recipe: pathlib.Path,
             place_of: Callable[[str], Optional[str]],
             required: Iterable[str]) -> pathlib.Path:
    """The folder $HEARTH_CACHE/NAME-DIGEST, made if it is not there.

    Downloads the wheels of a hash-pinned requirements file and keeps each
    member for which `place_of` tells a path. The digest is that of the
    requirements, of the script `recipe` and of this one. The folder is made
    under a temporary name and renamed when whole: an interrupted run leaves
    nothing that looks finished. Ends the process if the `required` paths are
    not among what was kept.
    """
    cache = pathlib.Path(
        os.environ.get("HEARTH_CACHE", pathlib.Path.home() / ".cache/hearth"))
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for part in (requirements, recipe, pathlib.Path(__file__)):
        digest.update(part.read_bytes())
    final = cache / f"{name}-{digest.hexdigest()[:16]}"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                wheels = pathlib.Path(scratch) / "wheels"
                tree = pathlib.Path(scratch) / "tree"
                _download(requirements, wheels)
                for wheel in sorted(wheels.glob("*.whl")):
                    _unpack(wheel, place_of, tree)
                    wheel.unlink()
                missing = [path for path in required if not (tree / path).exists()]
                if missing:
                    sys.exit(f"the wheels lack {missing}")
                tree.rename(final)
    return final
