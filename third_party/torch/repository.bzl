"""LibTorch, as headers and CPU libraries taken from pinned Python wheels.

The wheels are fetched with pip, checked against their SHA-256, unpacked and
pruned once into $HEARTH_CACHE (default ~/.cache/hearth), and linked from
there, so that a second workspace or clone finds them ready.
"""

# name-version -> SHA-256 of the x86-64 wheel. libtorch_cpu.so is built against
# the CUDA runtime and CUPTI; their libraries make it load where no CUDA is.
_WHEELS = {
    "torch==2.11.0": "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
    "nvidia-cuda-runtime==13.0.96": "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
    "nvidia-cuda-cupti==13.0.85": "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
}

def _libtorch_repository_impl(ctx):
    requirements = "".join([
        "{} --hash=sha256:{}\n".format(wheel, digest)
        for wheel, digest in _WHEELS.items()
    ])
    ctx.file("requirements.txt", requirements)
    ctx.path(ctx.attr.wheels)  # Which that script imports.
    ctx.report_progress("unpacking LibTorch (531 MB, once per machine)")
    result = ctx.execute(
        ["/usr/bin/python3", "-B", ctx.path(ctx.attr.unpack), "requirements.txt"],
        timeout = 1800,
        quiet = False,
    )
    if result.return_code != 0:
        fail("LibTorch could not be unpacked:\n" + result.stdout + result.stderr)
    unpacked = result.stdout.strip().split("\n")[-1]
    ctx.symlink(unpacked + "/lib", "lib")
    ctx.symlink(unpacked + "/include", "include")
    ctx.symlink(ctx.attr.build_file, "BUILD")

libtorch_repository = repository_rule(
    implementation = _libtorch_repository_impl,
    doc = "Makes @libtorch//:torch_cpu.",
    attrs = {
        "build_file": attr.label(default = "//third_party/torch:BUILD.libtorch"),
        "unpack": attr.label(default = "//third_party/torch:unpack_libtorch.py"),
        "wheels": attr.label(default = "//third_party/torch:wheels.py"),
    },
    environ = ["HEARTH_CACHE"],
)
