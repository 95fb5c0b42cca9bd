#!/usr/bin/env python3
"""Keeps LibTorch's part for NVIDIA GPUs and the libraries that it needs, of the
wheels that gpu_libraries.txt names. Prints the folder that holds `torch/lib`
beside `nvidia`, as the libraries look for each other.
"""

import pathlib

import wheels

LIBTORCH = ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_nvshmem.so")


def place_of(name: str) -> str | None:
    """Where a wheel's member goes, or None if it is not needed."""
    path = pathlib.PurePosixPath(name)
    if path.parent == pathlib.PurePosixPath("torch/lib"):
        return name if path.name in LIBTORCH else None
    is_library = path.parent.name == "lib" and ".so" in path.name
    return name if is_library and path.parts[0] == "nvidia" else None


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    print(wheels.unpacked("torch-cuda", here / "gpu_libraries.txt",
                          pathlib.Path(__file__), place_of,
                          [f"torch/lib/{library}" for library in LIBTORCH]))
