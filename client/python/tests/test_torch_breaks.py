"""hearth.torch where something breaks: daemons, jobs, interrupts, forks; and places to go on
from."""

from __future__ import annotations

import json
import logging
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from test_torch_loader import (TRAIN, VALID, Graph, code_of_child, hearth,  # noqa: F401
                               loader_of, same, start, wait_until)

import grpc  # noqa: E402

from hearth.torch import session  # noqa: E402
from hearth.torch.nodes import Nodes  # noqa: E402
from hearth.torch.trainers import Trainers  # noqa: E402


def x_of(feed, number, epoch=0, split=TRAIN):
    return feed.graph.batch(split, epoch, number).arrays["x", None, None]


def raise_end(_):
    raise EOFError


@pytest.mark.parametrize("kills, pause", [(range(7), 0), ([3], 0.3)])
def test_a_loader_outlives_its_daemon(start, kills, pause):  # noqa: F811
    feed, client = start()
    kept, restarts = [], [threading.Timer(pause, feed.start) for _ in kills]
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        kept = [*kept[-1:], batch]
        if number in kills:
            feed.kill()
            restarts[-1].start()
            if not pause:
                restarts.pop().join()
    assert number == 6 and len(feed.specs) == 1
    # Batches of the daemon that was killed are whole.
    for place, batch in zip((5, 6), kept):
        same(batch.x, x_of(feed, place))
    for restart in restarts:
        restart.join()


def test_a_daemon_that_does_not_come_back(start):  # noqa: F811
    feed, _ = start()
    with hearth.Client(feed.address, patience=0.1, watch_patience=0.3) as client:
        iterator = iter(loader_of(client))
        next(iterator)
        feed.kill()
        with pytest.raises(hearth.Unavailable):
            list(iterator)  # After what had come before.
        feed.start()


@pytest.mark.parametrize("place", range(8))
def test_a_state_is_gone_on_from(start, place):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    loader.set_epoch(5)
    iterator = iter(loader)
    for _ in range(place):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["next_batch"], state["fingerprint"]) == (5, place, "f1")
    loader.close()
    again = loader_of(client, samplers=2, strict_budgets=True)
    again.load_state_dict(state)
    assert again.state_dict() == state
    numbers = range(place, 7)
    assert [one is not None for one in again] == [True] * (7 - place)
    assert feed.sent[-len(numbers):] == [("train", 5, number) for number in numbers] or not numbers
    assert (again.state_dict()["epoch"], again.state_dict()["next_batch"]) == (6, 0)
    same(next(iter(again)).x, x_of(feed, 0, 6))


@pytest.mark.parametrize("options, words", [
    ({"batch_size": 8}, "batch_size was 4, and is 8"),
    ({"seed": 3}, "data_seed was 0, and is 3"),
    ({"split": "valid"}, "of split train, not valid"),
])
def test_a_state_of_another_spec_is_refused(start, options, words):  # noqa: F811
    _, client = start()
    state = loader_of(client).state_dict()
    with pytest.raises(ValueError, match=words):
        loader_of(client, **options).load_state_dict(state)


def test_a_state_of_other_contents_is_refused(start):  # noqa: F811
    _, client = start()
    loader = loader_of(client)
    loader.load_state_dict({**loader.state_dict(), "fingerprint": "f0"})
    with pytest.raises(ValueError, match="f0, and is f1"):
        iter(loader)


@pytest.mark.parametrize("closes", [False, True])
def test_the_error_of_a_job_is_raised(start, closes):  # noqa: F811
    feed, client = start()
    feed.closes_on_error = closes
    loader = loader_of(client)
    iterator = iter(loader)
    kept = next(iterator)
    feed.is_slow = True
    feed.errors.append((8, "no memory"))
    with pytest.raises(hearth.JobFailed, match="feed-1: no memory") as failed:
        for _ in range(9):
            next(iterator)
    assert failed.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    same(kept.x, x_of(feed, 0))
    with pytest.raises(hearth.JobFailed, match="no memory"):
        iter(loader)
    # A new loader has a job of its own.
    feed.is_slow = False
    loader.close()
    assert len(list(loader_of(client))) == 7 and len(feed.specs) == 2


def test_a_pass_that_ends_early_raises_why_and_the_next_one_works(start):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    iterator = iter(loader)
    next(iterator)
    feed.ends.append((10, "another trainer has left the pass"))
    with pytest.raises(hearth.HearthError, match="feed-1: another trainer has left") as ended:
        list(iterator)
    assert ended.value.code is grpc.StatusCode.ABORTED
    # After what had come before.
    place = loader.state_dict()
    assert place["epoch"] == 0 and feed.sent[-1] == ("train", 0, place["next_batch"] - 1)
    assert list(iterator) == []
    assert len(list(loader)) == 7 and feed.sent[-1] == ("train", 1, 6) and len(feed.specs) == 1


def test_a_pass_that_a_drain_refuses_is_opened_again(start):  # noqa: F811
    feed, client = start()
    feed.ends += 3 * [(14, "hearthd is draining")]
    assert len(list(loader_of(client))) == 7 and len(feed.messages("open")) == 4
    with hearth.Client(feed.address, watch_patience=0.5) as client:
        loader = loader_of(client)
        feed.ends += 99 * [(14, "hearthd is draining")]
        with pytest.raises(hearth.Unavailable, match="feed-2: hearthd is draining"):
            list(loader)
        feed.ends.clear()
        # The script may try once more.
        assert len(list(loader)) == 7


@pytest.mark.parametrize("breaks", [True, False])
def test_a_look_for_a_batch_never_pauses(start, monkeypatch, breaks):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    iterator = iter(loader)
    next(iterator)
    feed.is_slow = True
    used, run, pauses = loader._feed, loader._run, []
    if breaks:
        feed.kill()
    else:
        feed.ends.append((14, "hearthd is draining"))
    with monkeypatch.context() as patched:
        patched.setattr(used._job, "pause", pauses.append)
        wait_until(lambda: used.ready(run) is None and used._open is None)
    assert pauses == []
    if breaks:
        feed.start()
    feed.is_slow = False
    assert len(list(iterator)) == 6


def test_an_error_precedes_the_end_of_the_connection(start):  # noqa: F811
    """A daemon that closes with packets unread resets the connection; its last words come."""
    feed, client = start()
    loader = loader_of(client)
    iterator = iter(loader)
    kept = next(iterator)
    feed.sessions[0].stops_reading = True
    wait_until(lambda: feed.sessions[0].has_stopped)
    del kept
    feed.closes_on_error = True
    feed.errors.append((9, "the disk is gone"))
    with pytest.raises(hearth.JobFailed, match="the disk is gone"):
        for _ in range(9):
            next(iterator)


def test_a_drain_is_unavailable(start):  # noqa: F811
    feed, client = start()
    iterator = iter(loader_of(client))
    feed.errors.append((14, "the daemon drains"))
    with pytest.raises(hearth.Unavailable, match="drains"):
        for _ in range(9):
            next(iterator)


def test_a_job_that_was_cancelled_while_the_connection_was_lost(start):  # noqa: F811
    feed, client = start()
    iterator = iter(loader_of(client))
    next(iterator)
    feed.kill()
    feed.job.state = "CANCELLED"
    feed.start()
    with pytest.raises(hearth.JobFailed, match="feed-1 was cancelled"):
        list(iterator)


def test_nodes_that_are_refused_end_the_job_of_all_trainers(start):  # noqa: F811
    feed, client = start()
    feed.refused_nodes = "ids[1]: 5 is there twice"
    first = session.Feed(client, {"dataset": "papers", "fanouts": [2]}, Trainers(2, 0))
    first.takes("train", Nodes("ab", b""))
    first.submit()
    for _ in range(2):
        with pytest.raises(hearth.InvalidRequest, match="5 is there twice"):
            first.welcome()
    assert feed.job.state == feed.job.__class__(state="CANCELLED").state
    assert not first.is_usable


def test_a_job_that_cannot_be_attached_to_is_cancelled(start):  # noqa: F811
    feed, client = start()
    feed.path += ".elsewhere"
    with pytest.raises(hearth.Unavailable, match="socket of feeds"):
        len(loader_of(client))
    assert feed.job.state == feed.job.__class__(state="CANCELLED").state
    feed.path = feed.path.removesuffix(".elsewhere")


def test_a_long_wait_is_told(start, monkeypatch, caplog):  # noqa: F811
    monkeypatch.setattr(session, "_TOLD_SECONDS", 0.2)
    monkeypatch.setattr(session, "_TURN_SECONDS", 0.05)
    caplog.set_level(logging.WARNING, "hearth")
    feed, client = start()
    feed.is_slow = True
    iterator = iter(loader_of(client))
    feed.job.state, feed.job.waiting_reason = "WAITING", "waits for memory"
    threading.Timer(0.6, lambda: setattr(feed, "is_slow", False)).start()
    next(iterator)
    told, = caplog.messages
    assert told.endswith("feed-1 is waiting (waits for memory)")


def test_a_feed_gives_its_place_up_while_another_waits(start, monkeypatch):  # noqa: F811
    monkeypatch.setattr(session, "_YIELD_SECONDS", 0.05)
    monkeypatch.setattr(session, "_TURN_SECONDS", 0.02)
    feed, client = start()
    train = loader_of(client)
    iterator = iter(train)
    batch = next(iterator)
    other, wait = session.Feed(client, {}, Trainers(1, 0)), session._Wait()
    time.sleep(0.06)
    other._waited(None, wait)
    wait_until(lambda: feed.sessions[0].is_waiting)
    # The pass opens anew, where the script is.
    for number, batch in enumerate(iterator, 1):
        same(batch.x, x_of(feed, number))
    assert number == 6
    assert [one.first_batch for one in feed.messages("open")] == [0, 1]


def test_a_job_that_waits_after_a_pause_of_the_script_is_asked_again(start, monkeypatch):  # noqa: F811
    monkeypatch.setattr(session, "_TOLD_SECONDS", 0.2)
    monkeypatch.setattr(session, "_TURN_SECONDS", 0.05)
    feed, client = start()
    iterator = iter(loader_of(client))
    next(iterator)
    wait_until(lambda: feed.held == 4)
    feed.job.state, feed.sessions[0].is_waiting = "WAITING", True
    for number, batch in enumerate(iterator, 1):
        same(batch.x, x_of(feed, number))
    assert number == 6 and [one.first_batch for one in feed.messages("open")] == [0, 5]


def test_a_job_that_has_waited_amid_a_pass_goes_on(start):  # noqa: F811
    feed, client = start()
    iterator = iter(loader_of(client))
    next(iterator)
    feed.sessions[0].send(welcome=feed.graph.welcome(4))
    for number, batch in enumerate(iterator, 1):
        same(batch.x, x_of(feed, number))
    assert number == 6


def test_children_of_a_fork_leave_the_loader_alone(start):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    iterator = iter(loader)
    kept = [next(iterator)]
    assert code_of_child(loader, iterator, kept) == 0
    assert feed.messages("bye") == [] and feed.messages("close") == []
    same(kept[0].x, x_of(feed, 0))
    assert len(list(iterator)) == 6


PROGRAM = """
    import atexit, signal, sys, threading, time
    # A shell ignores SIGINT for the commands that it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Runs after what is registered later, such as the end of loaders.
    def tell():
        until = time.monotonic() + 60
        while not feed.messages("bye") and time.monotonic() < until:
            time.sleep(0.01)
        print(len(feed.messages("bye")), feed.violations, flush=True)
    atexit.register(tell)
    sys.path[:0] = {paths!r}
    import make_protos
    make_protos.use_tree()
    from pathlib import Path
    import hearth, hearth.torch
    from fake_feed import FakeFeed
    feed = FakeFeed(Path({folder!r}), is_elsewhere={is_elsewhere})
    client = hearth.Client(feed.address)
    loader = hearth.torch.NeighborLoader(client, dataset="papers", num_neighbors=[2])
    {body}
"""


def run_program(tmp_path, body, is_elsewhere=False):
    here = Path(__file__).resolve().parent
    text = textwrap.dedent(PROGRAM).format(
        paths=[str(here), str(here.parent)], folder=str(tmp_path), is_elsewhere=is_elsewhere,
        body=textwrap.dedent(body).strip())
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_an_interrupt_ends_the_iterator_and_the_loader_goes_on(tmp_path):
    program = run_program(tmp_path, """
        iterator = iter(loader)
        next(iterator)
        feed.is_slow = True
        print("waits", flush=True)
        try:
            for batch in iterator:
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(loader.state_dict()["epoch"], list(iterator))
        feed.is_slow = False
        print(len(list(loader)))
        loader.close()
    """)
    try:
        assert program.stdout.readline() == "waits\n"
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert out.splitlines() == ["interrupted", "0 []", "7", "1 []"], err
    assert program.returncode == 0


def test_interrupts_at_any_time_leave_a_loader_that_works(tmp_path):
    program = run_program(tmp_path, """
        import os, random
        random.seed(1)
        inside = False
        def stop(*_):
            if inside:
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, stop)
        def interrupt():
            for _ in range(60):
                time.sleep(random.random() * 0.04)
                os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        taken = interrupts = 0
        while thread.is_alive():
            loader.set_epoch(3)
            try:
                inside = True
                for batch in loader:
                    taken += 1
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                inside = False
        batch = None
        loader.set_epoch(3)
        wanted = [feed.graph.batch(1, 3, i).arrays["x", None, None] for i in range(7)]
        print(all((batch.x.numpy() == x).all() for batch, x in zip(loader, wanted)))
        print(interrupts > 5, taken > 5)
    """)
    out, err = program.communicate(timeout=120)
    assert out.splitlines() == ["True", "True True", "1 []"], err


@pytest.mark.parametrize("ending, code", [("pass", 0), ("raise ValueError", 1),
                                          ("sys.exit(3)", 3)])
def test_the_end_of_the_program_says_bye(tmp_path, ending, code):
    program = run_program(tmp_path, f"""
        kept = next(iter(loader))
        {ending}
    """)
    out, err = program.communicate(timeout=60)
    assert out == "1 []\n", err
    assert program.returncode == code and "Exception ignored" not in err


def test_a_daemon_that_closes_each_connection_is_not_tried_for_ever(start, monkeypatch):  # noqa: F811
    feed, _ = start()
    monkeypatch.setattr(feed.holds_welcome, "wait", raise_end)
    with hearth.Client(feed.address, watch_patience=0.5) as client:
        with pytest.raises(hearth.Unavailable, match="closes the connection"):
            len(loader_of(client))
    assert 2 <= len(feed.sessions) < 9


def test_a_state_survives_pickles(start):  # noqa: F811
    _, client = start()
    loader = loader_of(client)
    next(iter(loader))
    again = loader_of(client)
    again.load_state_dict(pickle.loads(pickle.dumps(loader)).state_dict())
    assert again.state_dict()["next_batch"] == 1


def test_lightning_goes_on_amid_an_epoch(start, tmp_path):  # noqa: F811
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    torch = pytest.importorskip("torch")
    _, client = start()
    seen, path = [], tmp_path / "amid"

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(6, 5)

        def training_step(self, batch, _):
            seen.append(float(batch.x.sum()))
            return torch.nn.functional.cross_entropy(self.lin(batch.x)[:batch.batch_size], batch.y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    class Save(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 10:
                trainer.save_checkpoint(path)

    def fit(*callbacks, **more):
        seen.clear()
        lightning.Trainer(max_epochs=2, logger=False, enable_checkpointing=False,
                          enable_progress_bar=False, callbacks=list(callbacks)).fit(
                              Model(), loader_of(client), **more)
        return list(seen)

    whole = fit(Save())
    assert len(whole) == 14 and fit(ckpt_path=path) == whole[10:]
