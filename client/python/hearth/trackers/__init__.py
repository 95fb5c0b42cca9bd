"""Trackers of experiments: jobs and sweeps in MLflow, Weights & Biases and TensorBoard.

    job.track(hearth.trackers.Mlflow(experiment="papers"))
    sweep.track(hearth.trackers.TensorBoard("runs"))

A tracker needs its package when it is made. Any object with the method `begin` of
`hearth.trackers.Tracker` is a tracker.
"""

from hearth.trackers.mlflow import Mlflow
from hearth.trackers.tensorboard import TensorBoard
from hearth.trackers.tracker import Run, RunInfo, Tracker
from hearth.trackers.wandb import Wandb

__all__ = ["Mlflow", "Run", "RunInfo", "TensorBoard", "Tracker", "Wandb"]
