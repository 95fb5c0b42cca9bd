"""Version of the package, which is the version of the daemon that it was released with."""

from __future__ import annotations

from importlib import metadata


def package_version() -> str:
    """The version; empty in a tree that is not installed."""
    try:
        return metadata.version("hearth-gnn")
    except metadata.PackageNotFoundError:
        return ""
