"""Pieces of imports and of plans: the program hearth-piece, which makes them without a daemon."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Optional, Sequence

import grpc

from hearth.dataset_calls import AnyPath
from hearth.errors import HearthError, InvalidRequest
from hearth.private import find_program

PLAN = "pieces.json"
"""Name of a plan's file."""

_INVALID = 2  # The program's exit code for what no repeat mends.


def piece_name(index: int) -> str:
    """Name of the file of a piece."""
    return f"piece-{index:06d}.edges"


def plan(folder: AnyPath, texts: Sequence[AnyPath], *, piece_size: Optional[str] = None,
         relabel: bool = False, header: Optional[bool] = None,
         columns: Optional[Sequence[str]] = None) -> int:
    """Cuts edge lists into pieces; returns how many. Options are the flags of `hearth piece
    plan`."""
    flags = []
    if piece_size is not None:
        flags += ["--piece-size", piece_size]
    if relabel:
        flags.append("--relabel")
    if header is not None:
        flags += ["--header", "yes" if header else "no"]
    if columns is not None:
        flags += ["--columns", ",".join(columns)]
    out = _run("plan", os.fspath(folder), *(os.fspath(text) for text in texts), *flags)
    return int(out.split(maxsplit=1)[0])


def make(plan: AnyPath, index: int, folder: AnyPath, *flags: str) -> None:
    """Makes a piece in `folder`, on this machine. Raises InvalidRequest if a text has a line that
    holds no edge; what other errors tell may be different at the next time."""
    _run("--of", os.fspath(plan), "--index", str(index), "--to", os.fspath(folder), *flags)


def missing(plan: AnyPath, *, contents: bool = False) -> dict[int, str]:
    """The pieces that the plan's folder does not have, and why. With `contents`, all that they
    hold is read against its checksums."""
    out = _run("check", "--of", os.fspath(plan), *(["--contents"] if contents else []))
    found = {}
    for line in out.splitlines():
        index, _, problem = line.partition(": ")
        found[int(index)] = problem
    return found


def remove_unfinished(folder: AnyPath) -> None:
    """Removes what processes that were killed have left of their pieces. No piece may be in the
    making."""
    for path in Path(folder).glob("*.tmp"):
        if re.fullmatch(r"piece-\d+\.edges\.[0-9a-f]+\.tmp", path.name):
            path.unlink(missing_ok=True)
        elif re.fullmatch(r"(samples|packs)-\d+\.[0-9a-f]+(\.earlier)?\.tmp", path.name):
            shutil.rmtree(path, ignore_errors=True)


def _run(*arguments: str) -> str:
    program = find_program("hearth-piece")
    done = subprocess.run([program, *arguments], capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, check=False)
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip().removeprefix("hearth-piece: ")
    if done.returncode == _INVALID:
        raise InvalidRequest(grpc.StatusCode.INVALID_ARGUMENT, message)
    raise HearthError(grpc.StatusCode.UNKNOWN,
                      message or f"hearth-piece ended with {done.returncode}")
