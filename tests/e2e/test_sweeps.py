"""Sweeps: searches for the best of many models."""

from __future__ import annotations

import csv
import re

import pytest

from daemon import TIRELESS, wait_for

# The job that trials vary: 1,800 training nodes in 57 batches an epoch.
_BASE = ("--dataset", "planted", "--model", "sage", "--fanouts", "5,5", "--hidden", "16",
         "--batch-size", "32", "--dropout", "0.2", "--seed", "1")
_SUBMIT = ("sweep", "submit", *_BASE)
# Poor trials come after good ones: asha stops all but the first and those as good.
_RATES = "lr=log:1e-5:1e-1"
_ASHA = (*_SUBMIT, "--space", _RATES, "--space", "hidden=int:8:32", "--algorithm", "asha",
         "--trials", "9", "--epochs", "9")


@pytest.fixture
def fresh(start_daemon, graph_folder):
    daemon = start_daemon(*TIRELESS)
    daemon.import_graph("planted", graph_folder)
    return daemon


def run_sweep(daemon, *options):
    return daemon.json(*options)


def submit(daemon, *options):
    return daemon.json(*options, "--detach")["id"]


def show(daemon, sweep):
    return daemon.json("sweep", "show", sweep)


def wait_for_end(daemon, sweep):
    ended = ("SWEEP_DONE", "SWEEP_STOPPED")
    wait_for(lambda: show(daemon, sweep)["state"] in ended, f"{sweep} to end", 0.2)
    return show(daemon, sweep)


def outcome(sweep):
    """All that a search decided, and what it saw."""
    return [(trial["number"], trial["state"], trial["parameters"], trial["epochs"],
             trial["metric"], trial["rank"], trial["reason"]) for trial in sweep["trials"]]


def parameters(trial):
    return {setting["name"]: setting["value"] for setting in trial["parameters"]}


def test_a_grid_trains_all_combinations_as_jobs_of_their_own(daemon, tmp_path):
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "lr=0.001,0.01",
                     "--space", "model=sage,gcn", "--epochs", "2")
    assert done["state"] == "SWEEP_DONE"
    assert [parameters(trial) for trial in done["trials"]] == [
        {"lr": rate, "model": model} for rate in ("0.001", "0.01") for model in ("sage", "gcn")]
    assert {trial["state"] for trial in done["trials"]} == {"TRIAL_SUCCEEDED"}
    for trial in done["trials"]:
        (job_id,) = trial["jobs"]
        job = daemon.json("job", "show", job_id)
        assert (job["sweep"], job["trial"], job["held"]) == (done["id"], trial["number"], False)
        model, rate = (parameters(trial)[name] for name in ("model", "lr"))
        (train,) = job["spec"]["train"]["trains"]
        # The other model takes over the width.
        assert train[model]["hidden"] == 16
        assert train["adam"]["learning_rate"] == float(rate)
        assert trial["metric"] == max(e["valid_metric"] for e in job["report"]["epochs"])
        alone = daemon.json("train", *_BASE, "--epochs", "2", "--lr", rate, "--model", model)
        assert alone["report"]["loss_digest"] == job["report"]["loss_digest"]
    by_rank = sorted(done["trials"], key=lambda trial: trial["rank"])
    assert [trial["metric"] for trial in by_rank] == sorted(
        (trial["metric"] for trial in done["trials"]), reverse=True)

    best = daemon.json("sweep", "best", done["id"])
    assert best["number"] == done["best_trial"] == by_rank[0]["number"]
    folder = tmp_path / "best"
    daemon.hearth("sweep", "best", done["id"], "--export", str(folder))
    assert (folder / "model.safetensors").exists()
    assert (folder / "config.json").exists()

    table = tmp_path / "epochs.csv"
    shown = daemon.hearth("sweep", "show", done["id"], "--csv", str(table)).out
    assert f"best so far: trial {done['best_trial']}" in shown
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["trial"]), int(row["epoch"])) for row in rows
            if row["trial"] == "2"] == [(2, 1), (2, 2)]
    assert len(rows) == 8
    assert 'hearth_sweep_trials{state="succeeded"}' in daemon.metrics()


def test_trials_of_equal_data_begin_one_after_the_other(daemon):
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "dropout=0.1,0.2",
                     "--space", "fanouts=5,5|3,3", "--epochs", "1", "--parallel", "1")
    begun = sorted(done["trials"], key=lambda trial: int(trial["jobs"][0].split("-")[1]))
    assert [parameters(trial)["fanouts"] for trial in begun] == ["5,5", "5,5", "3,3", "3,3"]
    assert [trial["number"] for trial in begun] == [1, 3, 2, 4]


def test_data_whose_plan_is_there_comes_first(fresh):
    diskgnn = ("--strategy", "diskgnn", "--cpu-cache", "16KiB", "--epochs", "2")
    fresh.json("prepare", *_BASE, *diskgnn, "--fanouts", "3,3")
    done = run_sweep(fresh, *_SUBMIT, *diskgnn, "--algorithm", "grid",
                     "--space", "fanouts=5,5|4,4|3,3", "--parallel", "1")
    begun = sorted(done["trials"], key=lambda trial: int(trial["jobs"][0].split("-")[1]))
    # Then the nearest.
    assert [parameters(trial)["fanouts"] for trial in begun] == ["3,3", "4,4", "5,5"]
    (preparation,) = fresh.json("job", "show", begun[0]["jobs"][0])["report"]["preparations"]
    assert preparation["reused"]


def test_the_best_trial_alone_is_tested(daemon, tmp_path):
    options = ("--seeds", "2", "--epochs", "3", "--patience", "1", "--strategy", "gnndrive")
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "lr=0.0001,0.01", *options)
    tests = []
    for trial in done["trials"]:
        for job in trial["jobs"]:
            report = daemon.json("job", "show", job)["report"]
            assert report["test_metric"] is None and report["model_path"]
        if trial["number"] != done["best_trial"]:
            assert trial["test_metric"] is None and not trial["test_jobs"]
            continue
        for replica, test in enumerate(trial["test_jobs"]):
            report = daemon.json("job", "show", test)["report"]
            alone = daemon.json("train", *_BASE, "--lr", parameters(trial)["lr"], *options[2:],
                                "--seed", "1", "--model-seed", str(1 + replica))["report"]
            assert report["test_metric"] == alone["test_metric"]
            assert report["kept_epoch"] == alone["kept_epoch"]
            tests.append(report["test_metric"])
    assert len(tests) == 2
    assert done["best_test_metric"] == sum(tests) / 2
    assert f"test {done['best_test_metric']:.4g}" in daemon.hearth("sweep", "show", done["id"]).out
    best = daemon.json("sweep", "best", done["id"])
    assert best["test_metric"] == done["best_test_metric"]
    # The replicas' tests share their pass.
    company = daemon.json("job", "show", best["test_jobs"][0])["report"]["company"]
    assert company["jobs"] == [best["test_jobs"][1]]
    # The tested job can be deleted with the rest.
    daemon.hearth("sweep", "delete", done["id"])
    daemon.hearth("job", "show", best["test_jobs"][0], code=1)


def test_all_trials_are_tested_if_asked(daemon):
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "lr=0.001,0.01",
                     "--epochs", "1", "--test", "all")
    for trial in done["trials"]:
        (job,) = trial["jobs"]
        report = daemon.json("job", "show", job)["report"]
        assert trial["test_metric"] == report["test_metric"] > 0
        assert not trial["test_jobs"]
    assert done["best_test_metric"] == done["trials"][done["best_trial"] - 1]["test_metric"]
    untested = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "lr=0.001,0.01",
                         "--epochs", "1", "--skip-test", "true")
    assert [trial["test_metric"] for trial in untested["trials"]] == [None, None]


def test_the_convoy_of_a_trial_is_shown(daemon):
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--space", "lr=0.001,0.003,0.01",
                     "--epochs", "2")
    assert [trial["shared_with"] for trial in done["trials"]] == [[2, 3], [1, 3], [1, 2]]
    for trial in done["trials"]:
        report = daemon.json("job", "show", trial["jobs"][0])["report"]
        assert report["company"]["jobs"] == sorted(
            job for other in done["trials"] for job in other["jobs"] if other != trial)
    assert re.search("succeeded +2, 3 ", daemon.hearth("sweep", "show", done["id"]).out)


def test_random_trials_do_not_depend_on_how_many_there_are(daemon):
    options = (*_SUBMIT, "--space", "lr=log:1e-4:1e-1", "--space", "dropout=uniform:0:0.5",
               "--epochs", "1", "--algorithm", "random", "--sweep-seed", "5")
    few = run_sweep(daemon, *options, "--trials", "2")
    more = run_sweep(daemon, *options, "--trials", "3")
    assert outcome(more)[:2] == [(*few_trial[:5], *more_trial[5:]) for few_trial, more_trial
                                 in zip(outcome(few), outcome(more))]
    for trial in more["trials"]:
        assert 1e-4 <= float(parameters(trial)["lr"]) <= 1e-1
        assert 0 <= float(parameters(trial)["dropout"]) <= 0.5
        assert trial["jobs"] and trial["epochs"] == 1


def test_asha_stops_some_at_its_rungs(daemon):
    done = run_sweep(daemon, *_ASHA)
    assert done["state"] == "SWEEP_DONE"
    stopped = [trial for trial in done["trials"] if trial["state"] == "TRIAL_STOPPED"]
    assert stopped
    for trial in stopped:
        assert trial["epochs"] in (1, 3)
        assert re.fullmatch(r"number \d+ of \d+ after epoch \d+; the best \d+ went on",
                            trial["reason"])
        job = daemon.json("job", "show", trial["jobs"][0])
        assert job["state"] == "CANCELLED"
        # Not a batch more than the rung.
        assert len(job["report"]["epochs"]) == trial["epochs"]
    best = next(trial for trial in done["trials"] if trial["rank"] == 1)
    assert (best["state"], best["epochs"]) == ("TRIAL_SUCCEEDED", 9)


@pytest.mark.parametrize("algorithm", ["halving", "median"])
def test_other_algorithms_stop_some(daemon, algorithm):
    done = run_sweep(daemon, *_SUBMIT, "--space", _RATES, "--algorithm", algorithm, "--trials",
                     "9", "--epochs", "4", "--seeds", "2")
    assert done["state"] == "SWEEP_DONE"
    states = [trial["state"] for trial in done["trials"]]
    assert "TRIAL_STOPPED" in states and "TRIAL_SUCCEEDED" in states
    if algorithm == "halving":
        # Three of nine go on after epoch 1, and one of these after epoch 3.
        assert sorted(trial["epochs"] for trial in done["trials"]) == [1] * 6 + [3] * 2 + [4]
    for trial in done["trials"]:
        first, second = (daemon.json("job", "show", job) for job in trial["jobs"])
        seeds = [job["spec"]["train"]["trains"][0]["model_seed"] for job in (first, second)]
        assert seeds == [1, 2]
        reached = [[epoch["valid_metric"] for epoch in job["report"]["epochs"]]
                   [:trial["epochs"]] for job in (first, second)]
        assert trial["metric"] == pytest.approx(sum(max(values) for values in reached) / 2)


@pytest.mark.parametrize("options, words", [
    (("--space", "learning=1,2"), '--space learning: "learning" is not an option'),
    (("--space", "dataset=a,b"), "--space dataset"),
    (("--space", "samplers=1,2"), "changes no result"),
    (("--space", "hidden=8,0"), '--space hidden: hidden: "0" is not'),
    (("--space", "dropout=uniform:0:1"), '--space dropout: dropout: "1" is not'),
    (("--space", "lr=log:0:1"), "--space lr: lr must be above 0"),
    (("--space", "hidden=uniform:8:16"), "takes whole numbers"),
    (("--space", "hidden=int:16:8"), "from low to high"),
    (("--space", "hidden="), "--space hidden"),
    (("--space", "heads=1,2"), "heads is not an option of model sage; models that have it: gat, gatv2, rgat"),
    (("--space", "model=sage,mlp"), '"mlp" is not one of'),
    (("--space", "lr=log:1e-3:1e-1", "--algorithm", "grid"), "how many values"),
    (("--space", "hidden=int:1:101", "--space", "batch-size=int:1:100", "--algorithm", "grid"),
     "at most 10000 combinations"),
    (("--space", "lr=0.1,0.2", "--trials", "10001"), "--trials"),
    (("--space", "model=gat", "--space", "hidden=30,32", "--space", "heads=4",
      "--algorithm", "grid"), "makes trial 1 impossible"),
    (("--space", "epochs=2,3", "--algorithm", "asha"), "epochs cannot be searched"),
    (("--space", "lr=0.1,0.2", "--algorithm", "asha", "--epochs", "1"), "first_rung"),
    ((), "must have a parameter"),
])
def test_bad_input_is_refused_by_field(daemon, options, words):
    refused = daemon.hearth(*_SUBMIT, *options, code=2)
    assert words in refused.err.replace("--first-rung", "first_rung")


def trained_jobs(daemon, sweep):
    """The jobs of a sweep's trials, by the daemon's list of all jobs."""
    return [job for job in daemon.json("job", "list")["jobs"]
            if job["sweep"] == sweep and job["id"].startswith("train")]


@pytest.mark.parametrize("algorithm", ["random", "asha", "halving", "median"])
def test_a_small_space_is_trained_once(daemon, algorithm):
    submitted = daemon.hearth(*_SUBMIT, "--space", "lr=0.01,1e30,1e-2,0.02", "--space",
                              "batch-size=32,64", "--optimizer", "sgd", "--epochs", "2",
                              "--algorithm", algorithm)
    said = "a grid: the space has no more points than the 27 trials asked for"
    assert said in submitted.err and said in submitted.out
    sweep = daemon.json("sweep", "list")["sweeps"][0]
    done = show(daemon, sweep["id"])
    assert [parameters(trial) for trial in done["trials"]] == [
        {"lr": rate, "batch-size": size} for size in ("32", "64")
        for rate in ("0.01", "1e30", "0.02")]
    digests = {daemon.json("job", "show", trial["jobs"][0])["report"]["loss_digest"]
               for trial in done["trials"] if trial["state"] == "TRIAL_SUCCEEDED"}
    assert len(digests) == sum(trial["state"] == "TRIAL_SUCCEEDED" for trial in done["trials"])
    assert {done["trials"][index]["state"] for index in (1, 4)} == {"TRIAL_FAILED"}


# Six points of which four are different jobs: sage has no heads.
_EQUAL = ("--space", "model=sage,gat", "--space", "heads=1,2,4", "--algorithm", "grid",
          "--epochs", "2", "--seeds", "2")


def test_equal_trials_take_the_result_of_the_first(fresh):
    watched = fresh.hearth(*_SUBMIT, *_EQUAL)
    assert "trials 3, 5 are the same as trial 1 and take its result" in watched.err
    assert watched.err.count("trial 1 (and 3, 5) succeeded") == 1
    assert watched.err.count("trial 4 succeeded") == 1
    done = show(fresh, fresh.json("sweep", "list")["sweeps"][0]["id"])
    assert [trial["same_as"] for trial in done["trials"]] == [0, 0, 1, 0, 1, 0]
    assert len(trained_jobs(fresh, done["id"])) == 8
    first = done["trials"][0]
    for trial in done["trials"][2:5:2]:
        assert trial["jobs"] == [] and trial["best_job"] == first["best_job"]
        assert [trial[key] for key in ("state", "epochs", "metric", "test_metric")] == [
            first[key] for key in ("state", "epochs", "metric", "test_metric")]
    assert sorted(trial["rank"] for trial in done["trials"]) == [1, 2, 3, 4, 5, 6]
    assert done["trials"][done["best_trial"] - 1]["same_as"] == 0
    assert "same as trial 1" in fresh.hearth("sweep", "show", done["id"]).out


def test_equal_trials_survive_kill_9_pause_and_stop(fresh):
    sweep = submit(fresh, *_SUBMIT, *_EQUAL, "--epochs", "200", "--parallel", "1")
    running = wait_for(lambda: (show(fresh, sweep)["trials"][0]["jobs"] or [None])[0], "a job")
    fresh.wait_for_batches(running, 10)
    fresh.hearth("sweep", "stop", sweep, "--trial", "3")
    fresh.hearth("sweep", "pause", sweep)
    fresh.kill()
    fresh.start()
    paused = show(fresh, sweep)
    assert [trial["same_as"] for trial in paused["trials"]] == [0, 0, 0, 0, 1, 0]
    assert [trial["state"] for trial in paused["trials"]] == [
        "TRIAL_RUNNING", "TRIAL_PENDING", "TRIAL_STOPPED", "TRIAL_PENDING", "TRIAL_RUNNING",
        "TRIAL_PENDING"]
    fresh.hearth("sweep", "resume", sweep)
    # What takes its result ends with it, and another one begins.
    fresh.hearth("sweep", "stop", sweep, "--trial", "1")
    stopped = show(fresh, sweep)["trials"]
    assert [trial["state"] for trial in stopped] == [
        "TRIAL_STOPPED", "TRIAL_RUNNING", "TRIAL_STOPPED", "TRIAL_PENDING", "TRIAL_STOPPED",
        "TRIAL_PENDING"]
    fresh.hearth("sweep", "stop", sweep)
    assert len(trained_jobs(fresh, sweep)) == 4


def test_the_training_loss_may_decide(daemon):
    done = run_sweep(daemon, *_SUBMIT, "--space", "lr=0.001,0.01", "--algorithm", "grid",
                     "--epochs", "2", "--metric", "loss")
    assert done["metric"] == "loss"
    losses = {}
    for trial in done["trials"]:
        job = daemon.json("job", "show", trial["jobs"][0])
        losses[trial["number"]] = min(epoch["loss"] for epoch in job["report"]["epochs"])
        assert trial["metric"] == losses[trial["number"]]
    assert done["best_trial"] == min(losses, key=losses.get)


def test_a_trial_that_diverges_ranks_last(daemon):
    done = run_sweep(daemon, *_SUBMIT, "--algorithm", "grid", "--epochs", "3",
                     "--space", "lr=1e30,0.003,0.01", "--optimizer", "sgd")
    assert done["state"] == "SWEEP_DONE"
    diverged = done["trials"][0]
    assert (diverged["state"], diverged["rank"]) == ("TRIAL_FAILED", 3)
    assert "diverged" in diverged["reason"]
    assert [trial["state"] for trial in done["trials"][1:]] == ["TRIAL_SUCCEEDED"] * 2


def test_kill_9_in_the_middle_gives_the_same_decisions(fresh):
    # Long enough to be met by a client that is slow beside other work.
    options = (*_ASHA, "--trials", "5", "--batch-size", "8", "--fanouts", "10,10")
    undisturbed = run_sweep(fresh, *options)
    sweep = submit(fresh, *options)
    kills = 0
    while show(fresh, sweep)["state"] == "SWEEP_RUNNING":
        seen = show(fresh, sweep)["last_sequence"]
        # At any moment between two events of the sweep.
        wait_for(lambda: show(fresh, sweep)["last_sequence"] > seen
                 or show(fresh, sweep)["state"] != "SWEEP_RUNNING", "an event")
        fresh.kill()
        fresh.start()
        kills += 1
    assert kills >= 5
    disturbed = show(fresh, sweep)
    assert outcome(disturbed) == outcome(undisturbed)
    assert disturbed["best_test_metric"] == undisturbed["best_test_metric"] is not None
    for trial, other in zip(disturbed["trials"], undisturbed["trials"], strict=True):
        jobs = [fresh.json("job", "show", one["jobs"][0]) for one in (trial, other)]
        assert jobs[0]["state"] == jobs[1]["state"]
        if jobs[0]["state"] == "SUCCEEDED":
            assert len({job["report"]["loss_digest"] for job in jobs}) == 1


def test_pause_and_resume(fresh):
    sweep = submit(fresh, *_SUBMIT, "--space", "lr=0.001,0.01", "--algorithm", "grid",
                   "--epochs", "20")
    running = wait_for(lambda: (show(fresh, sweep)["trials"][0]["jobs"] or [None])[0], "a job")
    fresh.wait_for_batches(running, 10)
    assert fresh.json("sweep", "pause", sweep)["state"] == "SWEEP_PAUSED"
    wait_for(lambda: fresh.state(running) == "QUEUED", "the job to be held")
    jobs = [job for trial in show(fresh, sweep)["trials"] for job in trial["jobs"]]
    assert all(fresh.json("job", "show", job)["held"] for job in jobs)
    # Others run meanwhile, and a restart changes nothing.
    assert fresh.json("train", *_BASE, "--epochs", "1")["state"] == "SUCCEEDED"
    fresh.kill()
    fresh.start()
    assert show(fresh, sweep)["state"] == "SWEEP_PAUSED"
    assert fresh.json("train", *_BASE, "--epochs", "1")["state"] == "SUCCEEDED"
    assert fresh.state(running) == "QUEUED"
    refused = fresh.hearth("dataset", "delete", "planted", code=1)
    assert "is used by" in refused.err
    fresh.hearth("sweep", "resume", sweep)
    done = wait_for_end(fresh, sweep)
    assert [trial["state"] for trial in done["trials"]] == ["TRIAL_SUCCEEDED"] * 2
    assert [trial["epochs"] for trial in done["trials"]] == [20, 20]


def test_a_draining_daemon_begins_no_trial(fresh):
    sweep = submit(fresh, *_SUBMIT, "--space", "lr=0.001,0.01", "--algorithm", "grid",
                   "--epochs", "10", "--parallel", "1")
    running = wait_for(lambda: (show(fresh, sweep)["trials"][0]["jobs"] or [None])[0], "a job")
    fresh.wait_for_batches(running, 10)
    assert "takes new jobs: no" in fresh.hearth("admin", "drain").out
    refused = fresh.hearth("train", *_BASE, "--epochs", "1", "--detach", code=None)
    assert refused.code != 0
    fresh.wait_for_state(running, "SUCCEEDED")
    waiting = wait_for(lambda: show(fresh, sweep)["trials"][1]["waiting_reason"], "a reason")
    assert waiting in fresh.hearth("sweep", "show", sweep).out
    (job,) = show(fresh, sweep)["trials"][1]["jobs"]
    assert fresh.state(job) == "QUEUED"
    fresh.hearth("admin", "drain", "--off")
    fresh.wait_for_batches(job, 10)
    fresh.hearth("admin", "drain")
    # A job that has begun trains to its end; the test of the best one has not.
    fresh.wait_for_state(job, "SUCCEEDED")
    parked = wait_for(lambda: next((trial["test_jobs"] for trial in show(fresh, sweep)["trials"]
                                    if trial["test_jobs"]), None), "the test")
    assert show(fresh, sweep)["state"] == "SWEEP_RUNNING"
    fresh.kill()
    fresh.start()
    done = wait_for_end(fresh, sweep)
    assert fresh.state(parked[0]) == "SUCCEEDED"
    assert done["best_test_metric"] > 0


def test_stop_and_delete(fresh):
    sweep = submit(fresh, *_SUBMIT, "--space", "lr=0.001,0.01,0.1", "--algorithm", "grid",
                   "--epochs", "1000")
    wait_for(lambda: show(fresh, sweep)["trials"][0]["jobs"], "a job")
    fresh.hearth("sweep", "stop", sweep, "--trial", "3")
    assert show(fresh, sweep)["trials"][2]["state"] == "TRIAL_STOPPED"
    refused = fresh.hearth("sweep", "delete", sweep, code=1)
    assert "stop it first" in refused.err
    fresh.hearth("sweep", "stop", sweep)
    stopped = show(fresh, sweep)
    assert stopped["state"] == "SWEEP_STOPPED"
    jobs = [job for trial in stopped["trials"] for job in trial["jobs"]]
    for job in jobs:
        fresh.wait_for_state(job, "CANCELLED")
    assert fresh.hearth("sweep", "watch", sweep, code=1).out
    fresh.hearth("sweep", "delete", sweep)
    assert fresh.json("sweep", "list")["sweeps"] == []
    assert fresh.hearth("job", "show", jobs[0], code=1)


def test_trials_that_are_added(fresh):
    sweep = submit(fresh, *_SUBMIT, "--algorithm", "manual", "--epochs", "1")
    assert show(fresh, sweep)["trials"] == []
    fresh.hearth("sweep", "add", sweep, "lr=0.01", "hidden=8")
    refused = fresh.hearth("sweep", "add", sweep, "lr=-1", code=2)
    assert 'lr: "-1" is not' in refused.err
    wait_for(lambda: show(fresh, sweep)["trials"][0]["state"] == "TRIAL_SUCCEEDED", "the trial")
    assert show(fresh, sweep)["state"] == "SWEEP_RUNNING"
    # The width is written in another way, and the seed is the one there is.
    added = fresh.hearth("sweep", "add", sweep, "hidden=8", "lr=1e-2", "model-seed=1")
    assert "trial 2 is the same as trial 1 and takes its result" in added.err
    first, second = show(fresh, sweep)["trials"]
    assert (second["state"], second["metric"]) == ("TRIAL_SUCCEEDED", first["metric"])
    assert second["jobs"] == [] and second["best_job"] == first["jobs"][0]
    fresh.hearth("sweep", "add", sweep, "lr=0.01", "hidden=8", "model-seed=2")
    wait_for(lambda: show(fresh, sweep)["trials"][2]["state"] == "TRIAL_SUCCEEDED", "the trial")
    assert show(fresh, sweep)["trials"][2]["jobs"]
    fresh.hearth("sweep", "stop", sweep)
    assert show(fresh, sweep)["best_trial"] == 1


def test_a_file_and_flags_together(fresh, tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("dataset: planted\nmodel: sage\nfanouts: [5, 5]\nepochs: 9\n"
                    "algorithm: grid\nspace:\n  lr: [0.01, 0.1]\n  fanouts: ['5,5', '3,3']\n",
                    encoding="utf-8")
    watched = fresh.hearth("sweep", "submit", "-f", str(file), "--epochs", "1", "--hidden", "8")
    assert "done" in watched.err
    (sweep,) = fresh.json("sweep", "list")["sweeps"]
    assert sweep["counts"] == [{"state": "TRIAL_SUCCEEDED", "trials": 4}]
    fanouts = [parameters(trial)["fanouts"] for trial in show(fresh, sweep["id"])["trials"]]
    assert fanouts == ["5,5", "5,5", "3,3", "3,3"]
