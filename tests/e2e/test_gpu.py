"""Training on a GPU. The daemon is real, its GPU a fake (tests/fake_gpu): the same code queues
the same work, which processors do. HEARTHD_ON_GPU names a daemon with a real one instead."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from daemon import HEARTHD, Daemon
from heterographs import planted_heterograph
from jobs import ENDLESS, LONG, LONG_BATCHES_PER_EPOCH, QUICK

_BIN = Path(HEARTHD).parents[1]
_REAL = os.environ.get("HEARTHD_ON_GPU")
_ON_GPU = _REAL or os.environ.get("HEARTHD_FAKE_GPU", str(_BIN / "tests/fake_gpu/hearthd"))
_small_gpu = pytest.mark.skipif(_REAL is not None, reason="wants a GPU of 512 MiB, the fake's")
_NO_DRIVER = _BIN / "engine/model/runtime/libtest_driver.so"

ON_GPU = ("--device", "cuda")
SAMPLED = (*ON_GPU, "--sample-on", "gpu")
# They leave rows on the GPU for models there.
CACHES = ("--cpu-cache", "32KiB", "--gpu-cache", "32KiB")
GPU_CACHE = ("--strategy", "diskgnn", *CACHES)
GPU_WINDOW = ("--strategy", "gids", *CACHES)
GPU_SLOTS = ("--strategy", "foresight", *CACHES)
TYPED = (*QUICK, "--dataset", "typed")
# LONG with fewer neighbors: a fake GPU takes a second for it, not many.
SHORTER = (*LONG, "--fanouts", "5,5", "--epochs", "3")


class GpuDaemon(Daemon):
    binary = _ON_GPU


def partly_known_labels(classes):
    """A label for each class, of which a quarter is not known."""
    labels = np.eye(classes.max() + 1, dtype=np.float32)[classes]
    labels[np.random.default_rng(5).random(labels.shape) < 0.25] = np.nan
    return labels


@pytest.fixture(scope="module")
def gpu(graph, graph_folder, tmp_path_factory):
    """A daemon with a GPU, and the datasets `planted`, `looped`, `partial` and `typed`."""
    data_dir = tmp_path_factory.mktemp("gpu") / "data"
    sources = tmp_path_factory.mktemp("source")
    typed = planted_heterograph(papers=1000).write(sources / "typed")
    partial = graph._replace(node_label=partly_known_labels(graph.node_label))
    with contextlib.closing(GpuDaemon(data_dir, "--max-running-jobs", "4")) as shared:
        shared.import_graph("planted", graph_folder)
        shared.import_graph("looped", graph_folder, "--self-loops", "add")
        shared.import_graph("partial", partial.write(sources / "partial"))
        shared.json("dataset", "import", "typed", "--source", str(typed))
        yield shared


@pytest.fixture
def fresh_gpu(graph_folder, tmp_path):
    with contextlib.closing(GpuDaemon(tmp_path / "data")) as own:
        own.import_graph("planted", graph_folder)
        yield own


def shares(report):
    """Bytes by device ("" is the host) and owner."""
    return {(share.get("device", ""), share["owner"]): int(share["bytes"])
            for share in report["memory"]}


def losses(report):
    return [epoch["loss"] for epoch in report["epochs"]]


def wait_for_success(daemon, job):
    return daemon.json("job", "watch", job)["report"]


@pytest.mark.parametrize("job", [(*QUICK, "--model", model) for model in
                                 ("sage", "gcn", "gat", "gatv2", "gin")] +
                         [(*TYPED, "--model", model) for model in ("rgcn", "rsage", "rgat")],
                         ids=lambda job: job[-1])
def test_losses_are_the_processors_and_repeat(gpu, job):
    on_cpu = gpu.json(*job)["report"]
    on_gpu = gpu.json(*job, *ON_GPU)["report"]
    assert (on_cpu["device"], on_gpu["device"]) == ("cpu", "cuda:0")
    assert losses(on_gpu) == pytest.approx(losses(on_cpu), rel=1e-3)
    # Rounding may turn a few predictions.
    assert on_gpu["test_metric"] == pytest.approx(on_cpu["test_metric"], abs=0.02)
    again = gpu.json(*job, "--device", "cuda:0")["report"]
    assert again["loss_digest"] == on_gpu["loss_digest"]


def test_labels_that_are_not_known_count_on_no_device(gpu):
    job = (*QUICK, "--dataset", "partial")
    on_cpu, on_gpu = (gpu.json(*job, *device)["report"] for device in ((), ON_GPU))
    assert losses(on_gpu) == pytest.approx(losses(on_cpu), rel=1e-3)
    assert on_gpu["test_metric"] == pytest.approx(on_cpu["test_metric"], abs=0.02)


def test_gcn_has_one_self_loop_a_node_wherever_it_trains_and_samples(gpu):
    """Degrees without self loops: those of `planted`, so that all neighbors give its losses."""
    job = (*QUICK, "--model", "gcn", "--fanouts=-1,-1")
    expected = losses(gpu.json(*job)["report"])
    for options in ((), ON_GPU, SAMPLED):
        looped = losses(gpu.json(*job, "--dataset", "looped", *options)["report"])
        assert looped == pytest.approx(expected, rel=1e-3)


@pytest.fixture(scope="module")
def of_memory(gpu):
    """The report of training on the GPU with everything in memory."""
    return gpu.json(*QUICK, *ON_GPU, "--strategy", "memory")["report"]


@pytest.mark.parametrize("strategy", [
    ("mmap",),
    ("gnndrive", "--samplers", "2", "--extractors", "2", "--cpu-cache", "64KiB"),
    ("ginex", "--superbatch", "7", "--cpu-cache", "64KiB"),
    ("diskgnn", "--cpu-cache", "64KiB"),
    ("diskgnn", *CACHES),
    ("gids", "--cpu-cache", "32KiB", "--window-cache", "32KiB"),
    ("gids", *CACHES),
    ("foresight", "--cpu-cache", "64KiB"),
    ("foresight", *CACHES),
], ids=lambda strategy: "".join(strategy[0:1] + strategy[3:4]))
def test_every_strategy_gives_the_digest_of_memory(gpu, of_memory, strategy):
    report = gpu.json(*QUICK, *ON_GPU, "--strategy", *strategy)["report"]
    assert report["loss_digest"] == of_memory["loss_digest"]


def test_models_on_the_gpu_share_rows_there(gpu):
    options = (*QUICK[1:], *ON_GPU, *GPU_CACHE, "--data-seed", "12")
    alone = [gpu.json("train", *options, "--class-weights", weights)["report"]["loss_digest"]
             for weights in ("none", "balanced")]
    sweep = gpu.json("sweep", "submit", *options, "--algorithm", "grid", "--space",
                     "class-weights=none|balanced", "--parallel", "2")
    digests = [gpu.json("job", "show", trial["jobs"][0])["report"]["loss_digest"]
               for trial in sweep["trials"]]
    assert sorted(digests) == sorted(alone)


@pytest.mark.parametrize("strategy", [GPU_CACHE, GPU_WINDOW, GPU_SLOTS],
                         ids=lambda strategy: strategy[1])
def test_heterographs_and_checkpoints_find_their_rows_on_the_gpu(gpu, strategy):
    job = (*TYPED, *ON_GPU, "--model", "rgat")
    expected = gpu.json(*job)["report"]
    report = gpu.json(*job, *strategy, "--checkpoint-every", "2")["report"]
    assert report["loss_digest"] == expected["loss_digest"]
    assert report["test_metric"] == expected["test_metric"]


def test_outre_gives_the_digest_of_memory_in_its_order(gpu):
    parts = ("--order", "partition", "--parts", "12", "--macro-batch-parts", "3")
    expected = gpu.json(*QUICK, *ON_GPU, *parts)["report"]["loss_digest"]
    report = gpu.json(*QUICK, *ON_GPU, *parts, "--strategy", "outre", "--cpu-cache",
                      "64KiB")["report"]
    assert report["loss_digest"] == expected


@pytest.mark.parametrize("strategy", [
    ("memory",),
    ("mmap", "--samplers", "3"),
    ("gnndrive", "--samplers", "2", "--extractors", "2", "--cpu-cache", "64KiB"),
    ("gids", "--cpu-cache", "32KiB", "--window-cache", "32KiB"),
], ids=lambda strategy: strategy[0])
def test_a_gpu_samples_the_batches_of_the_host(gpu, of_memory, strategy):
    options = (*QUICK, "--strategy", *strategy)
    on_host = gpu.json(*options, *ON_GPU)["report"]
    on_gpu = gpu.json(*options, *SAMPLED)["report"]
    assert on_gpu["loss_digest"] == on_host["loss_digest"]
    assert on_gpu["test_metric"] == on_host["test_metric"]
    of = {"host": shares(on_host), "gpu": shares(on_gpu)}
    assert ("cuda:0", "samplers") not in of["host"]
    assert of["gpu"]["cuda:0", "samplers"] > 1 << 16
    assert of["gpu"].get(("", "samplers"), 0) == 0
    # All of it is in memory.
    assert of["gpu"]["", "topology"] >= of["host"]["", "topology"]
    assert of["gpu"]["", "topology"] == shares(of_memory)["", "topology"]


@pytest.mark.parametrize("strategy", [("memory",), ("gnndrive", "--cpu-cache", "64KiB"), ("gids",)],
                         ids=lambda strategy: strategy[0])
def test_a_gpu_samples_heterographs(gpu, strategy):
    options = (*TYPED, "--model", "rgcn", "--strategy", *strategy)
    on_host = gpu.json(*options, *ON_GPU)["report"]
    on_gpu = gpu.json(*options, *SAMPLED)["report"]
    assert on_gpu["loss_digest"] == on_host["loss_digest"]
    assert on_gpu["test_metric"] == on_host["test_metric"]
    assert shares(on_gpu)["cuda:0", "samplers"] > 1 << 16


def test_a_gpu_samples_with_other_fanouts(gpu):
    options = (*QUICK, "--fanouts", "-1,3", "--batch-size", "70")
    expected = gpu.json(*options, *ON_GPU)["report"]["loss_digest"]
    assert gpu.json(*options, *SAMPLED)["report"]["loss_digest"] == expected


@pytest.mark.parametrize("strategy", [("--strategy", "mmap"), GPU_CACHE, GPU_WINDOW, GPU_SLOTS],
                         ids=lambda strategy: strategy[1])
def test_models_on_both_share_a_pass(gpu, strategy):
    options = (*QUICK[1:], *strategy, "--data-seed", "11")
    alone = {device: gpu.json("train", *options, "--device", device)["report"]["loss_digest"]
             for device in ("cpu", "cuda:0")}
    assert alone["cpu"] != alone["cuda:0"]
    sweep = gpu.json("sweep", "submit", *options, "--algorithm", "grid", "--space",
                     "device=cpu,cuda:0", "--parallel", "2")
    digests = {}
    for trial in sweep["trials"]:
        job = gpu.json("job", "show", trial["jobs"][0])
        digests[job["report"]["device"]] = job["report"]["loss_digest"]
        assert len(job["report"]["company"]["jobs"]) == 1
    assert digests == alone


def test_the_model_is_tested_and_exported(gpu, graph, tmp_path, pyg_logits):
    job = gpu.json(*QUICK, *ON_GPU)
    report = gpu.json("evaluate", job["id"])["report"]
    assert report["test_metric"] == job["report"]["test_metric"]
    gpu.hearth("export", job["id"], "--to", str(tmp_path / "model"))
    logits = pyg_logits(tmp_path / "model", graph.test_idx)
    accuracy = (logits.argmax(axis=1) == graph.node_label[graph.test_idx]).mean()
    # That of all neighbors, where the job drew some.
    assert accuracy == pytest.approx(report["test_metric"], abs=0.05)


@pytest.fixture(scope="module")
def expected(gpu):
    """The digest of the job that nobody kills."""
    return gpu.json(*SHORTER, *ON_GPU)["report"]["loss_digest"]


@pytest.mark.parametrize("options", [ON_GPU, SAMPLED, (*ON_GPU, *GPU_CACHE),
                                     (*SAMPLED, *GPU_WINDOW), (*ON_GPU, *GPU_SLOTS)],
                         ids=("cuda", "sampled", "diskgnn", "gids", "foresight"))
def test_a_killed_job_goes_on(fresh_gpu, expected, options):
    job = fresh_gpu.json(*SHORTER, *options, "--checkpoint-every", "5", "--detach")["id"]
    fresh_gpu.wait_for_batches(job, LONG_BATCHES_PER_EPOCH + 10)
    fresh_gpu.kill()
    fresh_gpu.start()
    report = wait_for_success(fresh_gpu, job)
    assert (report["resumes"], report["loss_digest"]) == (1, expected)


def test_its_memory_is_told(gpu):
    of = shares(gpu.json(*QUICK, *ON_GPU, *GPU_CACHE)["report"])
    assert of["cuda:0", "model"] > 1 << 20
    assert of["cuda:0", "gpu cache"] == 32 << 10
    assert of["cuda:0", "gpu batch"] > 0
    for strategy in (GPU_WINDOW, GPU_SLOTS):
        of = shares(gpu.json(*QUICK, *ON_GPU, *strategy)["report"])
        assert 31 << 10 < of["cuda:0", "gpu cache"] <= 32 << 10
        assert of["cuda:0", "gpu batch"] > 0
    told = gpu.json("explain", *QUICK[1:], *ON_GPU)["report"]
    of_host = [share for share in told["memory"] if not share.get("device")]
    assert len(of_host) == len(told["memory"]) - 1
    assert int(told["memory_bytes"]) == sum(int(share["bytes"]) for share in of_host)
    assert "on cuda:0" in gpu.hearth("explain", *QUICK[1:], *ON_GPU).out
    assert shares(gpu.json("explain", *QUICK[1:], *SAMPLED)["report"])["cuda:0", "samplers"] > 0
    metrics = gpu.metrics()
    assert 'hearth_gpu_memory_limit_bytes{device="cuda:0"}' in metrics
    assert 'hearth_gpu_memory_reserved_bytes{device="cuda:0"}' in metrics
    assert ("cuda:0 (" if _REAL else "cuda:0 (a fake)") in gpu.hearth("status").out


def test_explain_counts_the_rows_on_the_gpu(gpu):
    job = (*QUICK[1:], *ON_GPU, *GPU_SLOTS, "--data-seed", "13", "--epochs", "1")
    told = gpu.json("explain", *job)["report"]["levels"]
    hits = gpu.json("train", *job)["report"]["epochs"][0]["hits"]
    assert [level["level"] for level in hits] == ["gpu_cache", "cpu_cache"]
    assert [(level["level"], level["rows"]) for level in told[:2]] == \
        [(level["level"], level["rows"]) for level in hits]


@_small_gpu
def test_a_model_that_never_fits_is_refused(gpu):
    done = gpu.hearth(*LONG, *ON_GPU, "--hidden", "4096", code=1)
    assert "of the memory of cuda:0" in done.err


@_small_gpu
def test_a_job_waits_for_memory_of_the_gpu(gpu):
    large = ("--hidden", "1024", *ON_GPU)
    running = gpu.json(*ENDLESS, *large, "--detach")["id"]
    gpu.wait_for_batches(running, 1)
    # Its data are others, lest both share a pass.
    waiting = gpu.json(*LONG, *large, "--epochs", "1", "--data-seed", "7", "--detach")["id"]
    gpu.wait_for_state(waiting, "WAITING")
    assert "GPU memory: " in gpu.hearth("job", "show", waiting).out
    # Others, which need none of it, need not wait.
    gpu.hearth(*QUICK, "--data-seed", "8")
    gpu.hearth("job", "cancel", running)
    gpu.wait_for_batches(waiting, 1)
    gpu.hearth("job", "cancel", waiting)


@pytest.mark.parametrize("options, field", [
    (("--device", "cuda:1"), "--device"),
    (("--device", "gpu"), "--device"),
    ((*ON_GPU, "--trainers", "2"), "--trainers"),
    ((*ON_GPU, "--precision", "bf16"), "--precision"),
    ((*ON_GPU, "--history", "on"), "--history"),
    ((*ON_GPU, "--model", "none"), "--device"),
    (("--sample-on", "gpu"), "--sample-on"),
    ((*ON_GPU, "--sample-on", "cuda"), "--sample-on"),
    ((*SAMPLED, "--strategy", "ginex"), "--sample-on"),
    ((*GPU_WINDOW, "--window-cache", "32KiB"), "--window-cache"),
    ((*SAMPLED, "--strategy", "diskgnn"), "--sample-on"),
], ids=lambda value: "".join(value[-2:]) if isinstance(value, tuple) else "")
def test_what_a_gpu_does_not_do_is_refused(gpu, options, field):
    done = gpu.hearth(*QUICK, *options, code=None)
    assert done.code not in (0, None)
    assert field in done.err


def test_without_a_gpu_such_jobs_alone_are_refused(daemon):
    done = daemon.hearth(*QUICK, *ON_GPU, code=None)
    assert done.code not in (0, None)
    assert "--device" in done.err and "trains on no GPU" in done.err
    daemon.hearth(*QUICK)


def test_a_job_from_a_time_with_a_gpu_fails_without(fresh_gpu):
    job = fresh_gpu.json(*ENDLESS, *ON_GPU, "--detach")["id"]
    fresh_gpu.wait_for_batches(job, 1)
    fresh_gpu.kill()
    fresh_gpu.binary = HEARTHD
    fresh_gpu.start()
    fresh_gpu.wait_for_state(job, "FAILED")
    assert fresh_gpu.json("job", "show", job)["error"]["code"] == 9
    fresh_gpu.hearth(*QUICK)


def test_libtorch_for_gpus_changes_no_result(daemon, graph_folder, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    library = Path(torch.__file__).parent / "lib/libtorch_cuda.so"
    if not library.exists():
        pytest.skip("the torch that is installed has no part for GPUs")
    expected = daemon.json(*QUICK)["report"]["loss_digest"]
    (tmp_path / "driver").mkdir()
    shutil.copy(_NO_DRIVER, tmp_path / "driver/libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))
    monkeypatch.setenv("HEARTH_TORCH_CUDA", str(library))
    with contextlib.closing(Daemon(tmp_path / "data")) as loaded:
        maps = Path(f"/proc/{loaded.pid}/maps").read_text()
        assert "libtorch_cuda.so" in maps, loaded.log
        loaded.import_graph("planted", graph_folder)
        assert loaded.json(*QUICK)["report"]["loss_digest"] == expected
        done = loaded.hearth(*QUICK, *ON_GPU, code=None)
        assert "trains on no GPU" in done.err
