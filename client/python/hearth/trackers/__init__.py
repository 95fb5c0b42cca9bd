"""Trackers of experiments: what jobs and sweeps do, in MLflow, Weights & Biases or TensorBoard.

    job.track(hearth.trackers.Mlflow(experiment="papers"))
    sweep.track(hearth.trackers.TensorBoard("runs"))

Each needs its package, and asks for it when it is made. A tracker of another kind is any object
with the method `begin` of `hearth.trackers.Tracker`.
"""

from hearth.trackers.mlflow import Mlflow
from hearth.trackers.tensorboard import TensorBoard
from hearth.trackers.tracker import Run, RunInfo, Tracker
from hearth.trackers.wandb import Wandb

__all__ = ["Mlflow", "Run", "RunInfo", "TensorBoard", "Tracker", "Wandb"]
