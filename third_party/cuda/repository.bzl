"""Finds the CUDA toolkit, if this machine has one.

@cuda//:cuda.bzl then says so in HAVE_CUDA; cuda.bzl beside this file builds the
GPU plug-in with nvcc or leaves it out.
"""

def _cuda_repository_impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = ctx.path(home + "/bin/nvcc")
    ctx.file("BUILD", "")
    if nvcc.exists:
        ctx.file("cuda.bzl", "HAVE_CUDA = True\nCUDA_HOME = \"{}\"\n".format(home))
    else:
        # buildifier: disable=print
        print("no CUDA toolkit at {}: libhearth_cuda.so is not built".format(home))
        ctx.file("cuda.bzl", "HAVE_CUDA = False\nCUDA_HOME = \"\"\n")

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    doc = "Makes @cuda//:cuda.bzl with HAVE_CUDA and CUDA_HOME.",
    environ = ["CUDA_HOME"],
    local = True,
)
