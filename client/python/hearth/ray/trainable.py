"""Ray Tune starts and stops trials, the daemon trains them.

    tune.Tuner(hearth.ray.Trainable,
               param_space={"dataset": "papers", "model": "sage", "epochs": 9,
                            "lr": tune.loguniform(1e-4, 1e-1)},
               tune_config=tune.TuneConfig(metric="valid_metric", mode="max", num_samples=27,
                                           max_concurrent_trials=8,
                                           scheduler=tune.schedulers.ASHAScheduler()))
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

try:
    from ray import tune
except ImportError as missing:
    raise ImportError("hearth.ray.Trainable needs Ray Tune: pip install 'ray[tune]'") from missing

from hearth.client import Client, Job
from hearth.jobs import Epoch, EpochFinished, JobEvent, JobState


class Trainable(tune.Trainable):
    """A train job of the daemon; an iteration is an epoch, and takes no CPU of Ray's.

    The config has the options of Client.train and, optionally, `hearth_server`, the daemon's
    address for Ray's workers. A result has `valid_metric` (where there are validation
    nodes), `loss`, `epoch`, `seconds` and `hearth_job`; the last one also `test_metric`.

    A checkpoint is the id of the job: stopping a trial cancels its job, and restoring it resumes
    the job from the daemon's last checkpoint, which may be later than the last result seen; no
    epoch is reported twice or left out. Options do not change, so schedulers that change the
    options of a trial (population based training) cannot be used.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        # Ray refuses empty requests: one byte of memory.
        return tune.PlacementGroupFactory([{"CPU": 0, "memory": 1}])

    def setup(self, config: dict[str, Any]) -> None:
        self._options = dict(config)
        self._client = Client(self._options.pop("hearth_server", None), patience=120.0)
        # Not in setup: a restored trial has a job already.
        self._job: Optional[Job] = None
        self._events: Iterator[JobEvent] = iter(())
        self._sequence = 0
        self._last: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        if self._job is None:
            self._follow(self._client.train(self._options))
        assert self._job is not None
        for event in self._events:
            self._sequence = event.sequence
            if isinstance(event, EpochFinished):
                self._last = self._result(event.epoch)
                if str(event.epoch.epoch) != self._job.options["epochs"]:
                    return self._last
        # The job has ended. With patience, its last epoch has been reported before.
        report = self._client.result(self._job.id)
        ended = {**self._last, "done": True}
        if report.test_metric is not None:
            ended["test_metric"] = report.test_metric
        return ended

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"job": self._job.id if self._job is not None else None, "options": self._options,
                "sequence": self._sequence, "last": self._last}

    def load_checkpoint(self, checkpoint: Optional[dict[str, Any]]) -> None:
        if checkpoint is None or checkpoint["job"] is None:
            return
        if checkpoint["options"] != self._options:
            raise ValueError(f"{checkpoint['job']} cannot go on with other options: hearth.ray "
                             "has no trials that change theirs")
        self._stop_job()
        self._sequence, self._last = checkpoint["sequence"], checkpoint["last"]
        job = self._client.job(checkpoint["job"])
        if job.state in (JobState.CANCELLED, JobState.FAILED):
            job = self._client.resume(job.id)
        self._follow(job)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        self._stop_job()
        self._client.close()

    def _follow(self, job: Job) -> None:
        self._job = job
        self._events = self._client.watch(job.id, self._sequence + 1)

    def _stop_job(self) -> None:
        """Cancels the job and waits until it has ended: a later restore resumes it."""
        if self._job is not None:
            self._client.cancel(self._job.id)
            self._client.wait(self._job.id)
            self._job = None

    def _result(self, epoch: Epoch) -> dict[str, Any]:
        assert self._job is not None
        result = {"epoch": epoch.epoch, "loss": epoch.loss, "seconds": epoch.seconds,
                  "hearth_job": self._job.id}
        if epoch.valid_metric is not None:
            result["valid_metric"] = epoch.valid_metric
        return result
