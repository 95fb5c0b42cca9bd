"""Training jobs that the tests run: their options, and a kill in the middle of one."""

from __future__ import annotations

from daemon import Daemon

# A second or so in all.
QUICK = ("train", "--dataset", "planted", "--model", "sage", "--fanouts", "5,5", "--hidden", "32",
         "--batch-size", "64", "--epochs", "2", "--lr", "0.01", "--dropout", "0.2", "--seed", "1")

# Long enough to be met in the middle of an epoch.
LONG_BATCHES_PER_EPOCH = 57  # 1,800 training nodes of `planted` in batches of 32
LONG_EPOCHS = 6
LONG = ("train", "--dataset", "planted", "--strategy", "mmap", "--model", "sage",
        "--fanouts", "10,10,10", "--hidden", "64", "--batch-size", "32",
        "--epochs", str(LONG_EPOCHS), "--lr", "0.003", "--dropout", "0.2", "--seed", "5")

# The same as keywords of the Python client.
QUICK_OPTIONS = {"dataset": "planted", "model": "sage", "fanouts": [5, 5], "hidden": 32,
                 "batch_size": 64, "epochs": 2, "lr": 0.01, "dropout": 0.2, "seed": 1}
LONG_OPTIONS = {"dataset": "planted", "strategy": "mmap", "model": "sage", "fanouts": [10, 10, 10],
                "hidden": 64, "batch_size": 32, "epochs": LONG_EPOCHS, "lr": 0.003, "dropout": 0.2,
                "seed": 5}

# Does not end by itself: for tests that cancel it.
ENDLESS = (*LONG, "--epochs", "100000")

DISKGNN = ("--strategy", "diskgnn", "--cpu-cache", "16KiB")


def prepare(job: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """The preparation of a training job."""
    return ("prepare", *job[1:], *DISKGNN, *options)


def assert_a_kill_changes_nothing(daemon: Daemon, job: tuple[str, ...]) -> None:
    """Trains a job of LONG's batches twice, the second time through a kill -9 of the daemon in
    the second epoch."""
    undisturbed = daemon.json(*job)["report"]
    killed = daemon.json(*job, "--checkpoint-every", "10", "--detach")["id"]
    daemon.wait_for_batches(killed, LONG_BATCHES_PER_EPOCH + 20)
    daemon.kill()
    daemon.start()
    report = daemon.json("job", "watch", killed)["report"]
    assert report["resumes"] == 1
    assert report["loss_digest"] == undisturbed["loss_digest"]
    assert report["test_metric"] == undisturbed["test_metric"]
