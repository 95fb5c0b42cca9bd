"""Optuna and Ray Tune as they are published, with the real daemon (`--full python`)."""

from __future__ import annotations

import signal
import threading

import pytest

from daemon import TIRELESS, wait_for

pytestmark = pytest.mark.full("python")

BASE = {"dataset": "planted", "model": "sage", "fanouts": [5, 5], "hidden": 16,
        "batch_size": 32, "dropout": 0.2, "seed": 1}
# Only the first two of these rates learn within few epochs.
RATES = [1e-2, 3e-3, 1e-6, 1e-7]


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS, "--max-running-jobs", "2")
    daemon.import_graph("planted", graph_folder)
    return daemon


@pytest.fixture
def client(fresh):
    import hearth
    with hearth.Client(fresh.address, patience=120.0) as made:
        yield made


@pytest.fixture
def optimize():
    import optuna

    from hearth.optuna import optimize
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optimize


@pytest.fixture
def study():
    import optuna
    return optuna.create_study(
        direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1),
        pruner=optuna.pruners.PercentilePruner(50.0, n_startup_trials=1))


def states_of(study):
    return [trial.state.name for trial in study.trials]


def test_a_study_finds_the_best_rate_and_prunes(fresh, client, study, optimize):
    # One after the other, good ones first: all later ones are judged.
    for rate in RATES:
        study.enqueue_trial({"lr": rate})
    sweep = optimize(study, {**BASE, "epochs": 4}, {"lr": "log:1e-8:1e-1"}, parallel=1,
                     n_trials=len(RATES), client=client)
    assert states_of(study).count("PRUNED") >= 1
    shown = fresh.json("sweep", "show", sweep.id)
    assert shown["state"] == "SWEEP_STOPPED"
    assert study.best_value == shown["best_metric"]
    assert study.best_trial.user_attrs["hearth_trial"] == shown["best_trial"]
    for trial, other in zip(study.trials, shown["trials"], strict=True):
        assert trial.user_attrs["hearth_sweep"] == sweep.id
        job = fresh.json("job", "show", trial.user_attrs["hearth_job"])
        reported = [epoch["valid_metric"] for epoch in job["report"]["epochs"]]
        assert float(other["parameters"][0]["value"]) == trial.params["lr"]
        if trial.state.name == "PRUNED":
            assert other["state"] == "TRIAL_STOPPED"
            told = list(trial.intermediate_values.values())
            # The daemon waits for 5 seconds after an epoch before it goes on.
            assert 1 <= len(told) and told == reported[:len(told)]
        else:
            assert trial.intermediate_values == dict(enumerate(reported, 1))
            assert trial.value == max(reported) == other["metric"]


def test_a_study_in_parallel_with_a_function_for_a_space(client, optimize):
    import optuna

    def space(trial):
        model = trial.suggest_categorical("model", ["sage", "gat"])
        options = {"model": model, "lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True)}
        if model == "gat":
            options["heads"] = trial.suggest_int("heads", 1, 4)  # 3 does not divide hidden.
        return options

    study = optuna.create_study(direction="maximize",
                                sampler=optuna.samplers.RandomSampler(seed=3))
    study.enqueue_trial({"model": "gat", "heads": 3, "lr": 0.01})
    sweep = optimize(study, {**BASE, "epochs": 2}, space, parallel=3, n_trials=7, seeds=2,
                     client=client)
    assert states_of(study)[0] == "FAIL"
    told = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    assert told and len(told) == len(sweep.trials)
    for trial, other in zip(told, sweep.trials, strict=True):
        assert trial.value == other.metric and len(other.jobs) == 2
        # Epochs are the mean of both replicas.
        assert sorted(trial.intermediate_values) == [1, 2]
    assert study.best_value == sweep.best_metric


def test_trials_that_diverge_are_told_as_failed(client, optimize, monkeypatch):
    import optuna
    monkeypatch.setenv("HEARTH_SERVER", client.server)
    study = optuna.create_study(direction="minimize")
    for rate in (1e30, 0.01):
        study.enqueue_trial({"lr": rate})
    sweep = optimize(study, {**BASE, "optimizer": "sgd", "epochs": 2},
                     {"lr": "log:1e-4:1e30"}, n_trials=2, metric="loss")
    assert states_of(study) == ["FAIL", "COMPLETE"]
    assert study.best_value == sweep.best_metric == min(
        epoch.loss for epoch in client.report(sweep.trials[1].jobs[0]).epochs)


def test_a_trial_is_not_trained_again(client, study, optimize):
    rates = [0.01, 0.02, 0.01, 0.01]
    for rate in rates:
        study.enqueue_trial({"lr": rate})
    sweep = optimize(study, {**BASE, "epochs": 2}, {"lr": rates}, parallel=3, n_trials=4,
                     client=client)
    assert [trial.same_as for trial in sweep.trials] == [0, 0, 1, 1]
    assert [len(trial.jobs) for trial in sweep.trials] == [1, 1, 0, 0]
    first = study.trials[0]
    for taken in study.trials[2:]:
        assert (taken.state, taken.user_attrs["hearth_job"]) == (
            first.state, first.user_attrs["hearth_job"])
        if first.state.name == "COMPLETE":
            assert taken.value == first.value


def test_mistakes_leave_no_trial_behind(client, study, optimize):
    import optuna

    import hearth
    with pytest.raises(hearth.InvalidRequest, match="lrr: is not an option"):
        optimize(study, BASE, {"lrr": [1]}, client=client)
    with pytest.raises(ValueError, match="direction='minimize'"):
        optimize(study, BASE, {"lr": [0.1]}, metric="loss", client=client)
    wrong = optuna.create_study(direction="minimize")
    with pytest.raises(ValueError, match="direction='maximize'"):
        optimize(wrong, BASE, {"lr": [0.1]}, n_trials=2, client=client)
    assert states_of(study) == [] and states_of(wrong) == ["FAIL", "FAIL"]
    assert {sweep.state.value for sweep in client.sweeps()} == {"STOPPED"}


def test_an_interrupt_stops_the_sweep(fresh, client, study, optimize):
    def interrupt():
        wait_for(lambda: any(sweep.best_trial for sweep in client.sweeps()), "an epoch")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            optimize(study, {**BASE, "epochs": 10_000}, {"lr": RATES}, parallel=2, n_trials=4,
                     client=client)
    finally:
        watcher.join()
        signal.signal(signal.SIGINT, before)
    (sweep,) = client.sweeps()
    assert sweep.state.value == "STOPPED"
    assert set(states_of(study)) <= {"FAIL", "PRUNED"}
    for trial in client.sweep_show(sweep.id).trials:
        for job in trial.jobs:
            fresh.wait_for_state(job, "CANCELLED")


def test_a_study_outlives_kill_9(fresh, client, study, optimize):
    kills = 0

    def kill_after_an_epoch(study_so_far, trial, step):
        nonlocal kills
        if step == 2 and kills < 3:
            fresh.kill()
            fresh.start()
            kills += 1
        return False

    study.pruner.prune = lambda of, trial: kill_after_an_epoch(of, trial, trial.last_step)
    # Drawn rates may be equal, and are then trained once.
    for rate in RATES:
        study.enqueue_trial({"lr": rate})
    sweep = optimize(study, {**BASE, "epochs": 4}, {"lr": RATES}, parallel=2, n_trials=4,
                     client=client)
    assert kills == 3
    assert states_of(study) == ["COMPLETE"] * 4
    assert study.best_value == sweep.best_metric


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """One CPU for all trials, which take none."""
    with pytest.MonkeyPatch.context() as patch:
        # Trainables outside of Tune leave folders in ~/ray_results.
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        import ray
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        yield ray
        ray.shutdown()


def tune_with(daemon, tmp_path, rates, *, epochs, options=None, stop=None, **tune_config):
    """The results of a Ray Tune run over learning rates."""
    from ray import tune

    import hearth.ray
    space = {**BASE, **(options or {}), "epochs": epochs, "hearth_server": daemon.address,
             "lr": tune.grid_search(rates)}
    tuner = tune.Tuner(
        hearth.ray.Trainable, param_space=space,
        tune_config=tune.TuneConfig(metric="valid_metric", mode="max", **tune_config),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "ray"), stop=stop,
                                  verbose=0))
    return tuner.fit()


def test_ray_tune_finds_the_best_rate_and_asha_stops(ray, fresh, client, tmp_path):
    from ray.tune.schedulers import ASHAScheduler
    results = tune_with(fresh, tmp_path, RATES, epochs=4, max_concurrent_trials=1,
                        scheduler=ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2))
    assert not results.errors
    jobs = {result.metrics["hearth_job"]: fresh.json("job", "show", result.metrics["hearth_job"])
            for result in results}
    assert len(jobs) == len(RATES)
    assert sorted({job["state"] for job in jobs.values()}) == ["CANCELLED", "SUCCEEDED"]
    best = results.get_best_result(scope="all")
    (best_job,) = (job for job in jobs.values() if job["id"] == best.metrics["hearth_job"])
    assert best_job["state"] == "SUCCEEDED"
    assert best.metrics["test_metric"] == best_job["report"]["test_metric"]
    for result in results:
        job = jobs[result.metrics["hearth_job"]]
        reported = [epoch["valid_metric"] for epoch in job["report"]["epochs"]]
        told = list(result.metrics_dataframe["valid_metric"])
        assert told == reported[:len(told)]
        assert list(result.metrics_dataframe["epoch"]) == list(range(1, len(told) + 1))
        assert max(told) <= best.metrics_dataframe["valid_metric"].max()
        if job["state"] == "SUCCEEDED":
            assert told == reported
        else:
            assert len(told) < 4


def test_trials_of_ray_share_one_cpu(ray, fresh, client, tmp_path):
    seen = set()

    def both_have_run(trial, _):
        seen.add(trial)
        return len(seen) == 2

    results = tune_with(fresh, tmp_path, [0.01, 0.02], epochs=2000, max_concurrent_trials=2,
                        stop=both_have_run)
    assert not results.errors
    # One after the other, the first would have succeeded.
    assert [client.job(result.metrics["hearth_job"]).state.value for result in results] == [
        "CANCELLED", "CANCELLED"]


def test_trials_that_ray_pauses_go_on(ray, fresh, client, tmp_path):
    from ray.tune.schedulers import FIFOScheduler

    class PauseOnce(FIFOScheduler):
        paused = set()

        def on_trial_result(self, tune_controller, trial, result):
            if result["epoch"] < 2 or trial.trial_id in self.paused:
                return self.CONTINUE
            self.paused.add(trial.trial_id)
            return self.PAUSE

    results = tune_with(fresh, tmp_path, RATES[:2], epochs=2000, max_concurrent_trials=1,
                        scheduler=PauseOnce(), stop={"epoch": 5})
    assert not results.errors
    for result in results:
        job = result.metrics["hearth_job"]
        states = [event.state.value for event in client.watch(job) if hasattr(event, "state")]
        # Cancelled by the pause, resumed, and stopped at the end.
        assert [state for state in states if state in ("QUEUED", "CANCELLED")] == [
            "QUEUED", "CANCELLED", "QUEUED", "CANCELLED"]
        frame = result.metrics_dataframe
        assert list(frame["epoch"]) == [1, 2, 3, 4, 5]
        assert list(frame["valid_metric"]) == [
            epoch.valid_metric for epoch in client.report(job).epochs[:5]]


def test_a_job_that_fails_is_an_error_of_its_trial(ray, fresh, tmp_path):
    results = tune_with(fresh, tmp_path, [1e30, 0.01], epochs=2, options={"optimizer": "sgd"})
    assert [result.error is None for result in results] == [False, True]
    assert "diverged" in str(results[0].error)


def test_patience_ends_a_trial_early(ray, fresh, client, tmp_path):
    results = tune_with(fresh, tmp_path, [0.01], epochs=1000, options={"patience": 3})
    (result,) = results
    report = client.report(result.metrics["hearth_job"])
    assert len(report.epochs) < 1000
    assert result.metrics["epoch"] == len(report.epochs)
    assert result.metrics["test_metric"] == report.test_metric


def test_a_paused_trial_goes_on_in_another_actor(fresh, client, ray, tmp_path):
    """Pause, as Ray does it: save, stop, and restore elsewhere."""
    import hearth.ray
    config = {**BASE, "epochs": 60, "lr": 0.01, "hearth_server": fresh.address}
    undisturbed = client.train({name: value for name, value in config.items()
                                if name != "hearth_server"})
    first = hearth.ray.Trainable(config=dict(config))
    results = [first.train() for _ in range(3)]
    checkpoint = first.save(str(tmp_path / "checkpoint"))
    first.stop()
    job = results[0]["hearth_job"]
    assert client.job(job).state.value == "CANCELLED"
    second = hearth.ray.Trainable(config=dict(config))
    second.restore(checkpoint)
    while not results[-1]["done"]:
        results.append(second.train())
    second.stop()
    assert [result["epoch"] for result in results] == list(range(1, 61))
    assert {result["hearth_job"] for result in results} == {job}
    assert client.result(job).loss_digest == client.result(undisturbed.id).loss_digest
    other = hearth.ray.Trainable(config={**config, "lr": 0.5})
    with pytest.raises(ValueError, match="cannot go on with other options"):
        other.restore(checkpoint)
    other.stop()


def test_frames(client):
    job = client.train({**BASE, "epochs": 2})
    frame = client.result(job.id).epochs.frame()
    assert list(frame["epoch"]) == [1, 2]
    sweep = client.sweep({**BASE, "epochs": 2}, space={"lr": [0.1, 0.01]}, algorithm="grid")
    done = client.sweep_wait(sweep.id)
    trials = done.trials.frame().set_index("number")
    assert trials["parameters.lr"].to_dict() == {1: 0.1, 2: 0.01}
    assert trials["metric"].max() == done.best_metric
    epochs = client.sweep_epochs(sweep.id).frame()
    assert epochs.groupby("trial")["metric"].max().to_dict() == trials["metric"].to_dict()
