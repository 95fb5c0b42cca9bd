"""Builds the GPU plug-in with nvcc, or leaves it out where there is none."""

load("@cuda//:cuda.bzl", "CUDA_HOME", "HAVE_CUDA")

# Ampere and Hopper as machine code, and what the driver can compile for later
# ones. Hosts' warnings are errors, as everywhere.
_NVCC_OPTIONS = [
    "-O3",
    "-std=c++20",
    "--expt-relaxed-constexpr",
    "-gencode arch=compute_80,code=sm_80",
    "-gencode 'arch=compute_90,code=[sm_90,compute_90]'",
    "-Werror all-warnings",
    "-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Werror",
    "-I .",
]

# The runtime is linked in and hidden, so that the plug-in loads without a
# driver and beside a LibTorch that brings its own.
_LINK_OPTIONS = [
    "-shared",
    "-cudart static",
    "-Xlinker --exclude-libs=ALL",
]

def hearth_cuda_plugin(name, srcs, hdrs, visibility = None):
    """lib`name`.so from .cu files, or nothing without the CUDA toolkit.

    Without it, building `name` is fine and gives no file; @cuda says so when
    it looks for the toolkit.

    Args:
      name: names the target and the library.
      srcs: .cu files.
      hdrs: headers that they include, of any package.
      visibility: who may use it.
    """
    if not HAVE_CUDA:
        native.filegroup(
            name = name,
            srcs = [],
            visibility = visibility,
        )
        return
    native.genrule(
        name = name,
        srcs = srcs + hdrs,
        outs = ["lib" + name + ".so"],
        cmd = " ".join(
            [CUDA_HOME + "/bin/nvcc"] + _NVCC_OPTIONS + _LINK_OPTIONS +
            ["-o $@"] + ["$(location %s)" % src for src in srcs],
        ),
        message = "Compiling with nvcc",
        visibility = visibility,
    )
