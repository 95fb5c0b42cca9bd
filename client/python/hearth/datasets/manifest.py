"""`source.json`: the origin and the contents of a converted folder.

A converter publishes its folder with atomic_folder and records in it a format
name, everything that the content depends on (the origin), counts and the size of
each array. So a later run recognizes folders of converters, which it may reuse or
replace; it never touches other folders.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

NAME = "source.json"


class ConversionError(Exception):
    """The source cannot be read, or the output must not be written."""


def write(folder: Path, origin: dict[str, Any], counts: dict[str, Any]) -> None:
    """Records the origin, the counts and the size of each array in the folder."""
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size
             for path in sorted(folder.rglob("*.npy"))}
    manifest = {**origin, "counts": counts, "file_bytes": sizes}
    (folder / NAME).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def read(folder: Path, format_prefix: str) -> Optional[dict[str, Any]]:
    """The manifest of a folder whose format begins with `format_prefix`; None for any other."""
    try:
        manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict):
        return None
    return manifest if str(manifest.get("format")).startswith(format_prefix) else None


def is_complete(folder: Path, manifest: dict[str, Any], origin: dict[str, Any]) -> bool:
    """Whether the folder came from `origin` and has all its files in full length."""
    if any(manifest.get(name) != value for name, value in origin.items()):
        return False
    sizes = manifest["file_bytes"]
    paths = {folder / name: size for name, size in sizes.items()}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def refuse_foreign(folder: Path, content: str) -> None:
    """Raises if `folder` exists and is not converted `content`."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConversionError(f"{folder} exists and is not {content}: "
                              "name another folder, or remove it")
