"""Optuna chooses trials, the daemon trains them as trials of one sweep.

    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
    hearth.optuna.optimize(study, {"dataset": "papers", "model": "sage", "epochs": 9},
                           {"lr": "log:1e-4:1e-1", "hidden": [128, 256]})
"""

from __future__ import annotations

import logging
import statistics
from typing import Callable, Mapping, Optional, Union

import grpc

try:
    import optuna
    from optuna.distributions import (BaseDistribution, CategoricalDistribution,
                                      FloatDistribution, IntDistribution)
except ImportError as missing:
    raise ImportError("hearth.optuna needs optuna: pip install optuna") from missing

from hearth.client import Client, Sweep
from hearth.errors import HearthError, InvalidRequest
from hearth.options.specs import searched
from hearth.options.values import Value, text_of
from hearth.space import Choice, Integers, LogUniform, Space, domain_of
from hearth.sweeps import (EpochsReported, ReplicaEnded, SweepEvent, TrialAdded, TrialState,
                           TrialStopped)

Suggest = Callable[[optuna.Trial], Mapping[str, Value]]
StudySpace = Union[Mapping[str, Union[Space, BaseDistribution]], Suggest]
"""Options and their values, as in Client.sweep or as distributions of Optuna; or a function
that asks a trial for them by `suggest_...` and returns them by name."""

_VERDICT_WAIT = 5
"""Seconds that trials wait after an epoch for the pruner, at most."""

_log = logging.getLogger("hearth")


def optimize(study: optuna.Study, template: Mapping[str, Value], space: StudySpace,
             parallel: int = 8, *, n_trials: int = 27, seeds: int = 1, metric: str = "valid",
             priority: int = 0, client: Optional[Client] = None) -> Sweep:
    """Adds `n_trials` trials to a study, each trained by the daemon as a trial of one sweep.

    `parallel` trials are asked for at a time, so that the daemon can train them together.
    `template` has the options that they have in common, as in Client.train. After each epoch
    the validation metric (or with metric="loss" the training loss; the mean over `seeds`) is
    reported, and a trial that should be pruned is stopped before its next epoch: trials wait for
    the pruner for up to 5 seconds. The value of a trial is its best epoch, as in `hearth sweep
    show`. A trial with the parameters of an earlier one is not trained again: it takes the
    earlier result, pruned or not, and reports no epochs. Trials that fail, diverge or have an
    impossible combination of parameters are reported as failed. Each trial has the user
    attributes `hearth_sweep`, `hearth_trial` and, once it has a result, `hearth_job`.

    An interrupt, or any error, stops the sweep and reports the trials in flight as failed.
    """
    if len(study.directions) != 1:
        raise ValueError("the study has several objectives; trials of a sweep have one")
    if metric == "loss":
        _check_direction(study, metric)
    distributions, suggest = _study_space(space)
    if client is None:
        with Client(patience=120.0) as own:
            return optimize(study, template, space, parallel, n_trials=n_trials, seeds=seeds,
                            metric=metric, priority=priority, client=own)
    # The template may name the validation metric.
    judged_by = {} if metric == "valid" else {"metric": metric}
    sweep = client.sweep({**template, **judged_by, "algorithm": "manual", "parallel": parallel,
                          "seeds": seeds, "verdict-wait": _VERDICT_WAIT}, priority=priority)
    search = _Search(study, distributions, suggest, client, sweep.id, seeds)
    try:
        search.run(parallel, n_trials)
    finally:
        try:
            client.sweep_stop(sweep.id)
        finally:
            search.fail_rest()
    return client.sweep_show(sweep.id)


class _Search:
    """Trials in flight by their numbers in the sweep (`_open`), and all trials that are not
    reported yet by their numbers in the study."""

    def __init__(self, study: optuna.Study, distributions: dict[str, BaseDistribution],
                 suggest: Suggest, client: Client, sweep: str, seeds: int) -> None:
        self._study = study
        self._distributions = distributions
        self._suggest = suggest
        self._client = client
        self._sweep = sweep
        self._seeds = seeds
        self._asked = 0
        self._untold: dict[int, optuna.Trial] = {}
        self._open: dict[int, optuna.Trial] = {}
        # Open trials that take the result of an equal one and report no epochs.
        self._taking: set[int] = set()
        self._values: dict[tuple[int, int], list[float]] = {}

    def run(self, parallel: int, n_trials: int) -> None:
        """Runs until all trials are reported."""
        self._fill(parallel, n_trials)
        if not self._open:
            return
        for event in self._client.sweep_watch(self._sweep):
            self._take(event)
            self._fill(parallel, n_trials)
            if not self._open:
                return
        raise HearthError(grpc.StatusCode.ABORTED, f"{self._sweep} was stopped by somebody else")

    def fail_rest(self) -> None:
        """Reports all other trials as failed, so that the study has none that seems to run."""
        for trial in list(self._untold.values()):
            self._tell(trial, state=optuna.trial.TrialState.FAIL)

    def _fill(self, parallel: int, n_trials: int) -> None:
        """Asks for trials until `parallel` are in flight."""
        while len(self._open) < parallel and self._asked < n_trials:
            self._asked += 1
            trial = self._study.ask(self._distributions)
            self._untold[trial.number] = trial
            parameters = self._suggest(trial)
            for name in parameters:
                searched(name)
            try:
                added = self._client.add_trial(self._sweep, parameters)
            except InvalidRequest as error:
                _log.warning("trial %d cannot be: %s", trial.number, error)
                self._tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            trial.set_user_attr("hearth_sweep", self._sweep)
            trial.set_user_attr("hearth_trial", added.number)
            self._open[added.number] = trial
            if added.same_as:
                self._taking.add(added.number)

    def _take(self, event: SweepEvent) -> None:
        if isinstance(event, EpochsReported):
            _check_direction(self._study, event.metric)
            for result in event.results:
                value = result.loss if event.metric == "loss" else result.metric
                if value is None:
                    raise ValueError("there is no validation metric: use metric='loss'")
                self._report(result.trial, result.epoch, value)
        elif isinstance(event, (ReplicaEnded, TrialStopped)):
            if event.trial in self._open or self._taking:
                self._settle()
        elif isinstance(event, TrialAdded) and event.same_as:
            self._settle()

    def _report(self, number: int, epoch: int, value: float) -> None:
        """Reports an epoch once all replicas have finished it, and prunes."""
        trial = self._open.get(number)
        if trial is None:
            return
        values = self._values.setdefault((number, epoch), [])
        values.append(value)
        if len(values) < self._seeds:
            return
        trial.report(statistics.fmean(self._values.pop((number, epoch))), epoch)
        if trial.should_prune():
            stopped = self._client.stop_trial(self._sweep, number)
            trial.set_user_attr("hearth_job", stopped.best_job)
            self._tell(trial, state=optuna.trial.TrialState.PRUNED)
            del self._open[number]
        else:
            self._client.continue_trial(self._sweep, number, epoch)

    def _settle(self) -> None:
        """Reports the trials that have ended."""
        sweep = self._client.sweep_show(self._sweep)
        for ended in sweep.trials:
            trial = self._open.get(ended.number)
            if trial is None or not ended.state.has_ended:
                continue
            trial.set_user_attr("hearth_job", ended.best_job)
            if ended.state is TrialState.SUCCEEDED:
                self._tell(trial, ended.metric)
            elif ended.state is TrialState.STOPPED:
                self._tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                _log.warning("trial %d failed: %s", trial.number, ended.reason)
                self._tell(trial, state=optuna.trial.TrialState.FAIL)
            del self._open[ended.number]
            self._taking.discard(ended.number)

    def _tell(self, trial: optuna.Trial, value: Optional[float] = None,
              state: Optional[optuna.trial.TrialState] = None) -> None:
        # Finished: an interrupt came between the two lines.
        self._study.tell(trial, value, state, skip_if_finished=True)
        del self._untold[trial.number]


def _check_direction(study: optuna.Study, metric: str) -> None:
    least_is_best = metric in ("loss", "mse")
    wanted = "minimize" if least_is_best else "maximize"
    if study.direction.name.lower() != wanted:
        raise ValueError(f"of {metric}, {'less' if least_is_best else 'more'} is better: create "
                         f"the study with direction='{wanted}'")


def _study_space(space: StudySpace) -> tuple[dict[str, BaseDistribution], Suggest]:
    """Distributions for asking a trial, and the function that returns its options."""
    if callable(space):
        return {}, space
    distributions = {name: _distribution(name, values) for name, values in space.items()}
    return distributions, lambda trial: trial.params


def _distribution(name: str, values: Union[Space, BaseDistribution]) -> BaseDistribution:
    named = searched(name)
    if isinstance(values, BaseDistribution):
        return values
    domain = domain_of(name, values)
    if isinstance(domain, Choice):
        # Optuna has no lists.
        return CategoricalDistribution([value if isinstance(value, (str, bool, int, float))
                                        else text_of(named, value) for value in domain.values])
    if isinstance(domain, Integers):
        return IntDistribution(domain.low, domain.high)
    return FloatDistribution(domain.low, domain.high, log=isinstance(domain, LogUniform))
