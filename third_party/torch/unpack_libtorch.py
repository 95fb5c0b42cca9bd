#!/usr/bin/env python3
"""Keeps what Hearth links against of the wheels named in a hash-pinned
requirements file. Prints the folder that holds `lib` and `include`.
"""

import pathlib
import sys

import wheels

LIBRARIES = (
    "libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13",
    "libcupti.so.13",
)


def place_of(name: str) -> str | None:
    """Where a wheel's member goes, or None if it is not needed."""
    path = pathlib.PurePosixPath(name)
    if path.name in LIBRARIES and path.parent.name == "lib":
        return f"lib/{path.name}"
    # The wheel's own copy of protobuf would shadow the system's.
    if name.startswith("torch/include/") and not name.startswith(
            "torch/include/google/"):
        return name.removeprefix("torch/")
    return None


if __name__ == "__main__":
    print(wheels.unpacked("libtorch", pathlib.Path(sys.argv[1]),
                          pathlib.Path(__file__), place_of,
                          [f"lib/{library}" for library in LIBRARIES]))
