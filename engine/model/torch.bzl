"""How targets are built and run that include torch."""

# Files that call at::parallel_for are compiled with OpenMP, as LibTorch is, so
# that they use its threads; what is linked is LibTorch's libgomp. The other
# configurations use clang, whose OpenMP is another library: they do without.
OPENMP = select({
    "//engine/model:optimized": ["-fopenmp"],
    "//conditions:default": [],
})

# LibTorch is not instrumented.
TORCH_TAGS = [
    "no-asan",
    "no-tsan",
]

# As InitializeTorch sets it: many threads share few cores.
TORCH_ENV = {"OMP_WAIT_POLICY": "PASSIVE"}
