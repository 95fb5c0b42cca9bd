"""The memory of feeds' batches: when slots go back, what scripts may do to them."""

from __future__ import annotations

import gc
import logging
import os
import threading

import pytest

from test_torch_loader import (TRAIN, Graph, loader_of, same, start,  # noqa: F401
                               torch, wait_until)

from hearth.torch import slots as slots_module  # noqa: E402

LARGE = 4096  # Columns: a row has four pages.


def x_of(feed, number, epoch=0):
    return feed.graph.batch(TRAIN, epoch, number).arrays["x", None, None]


def released(feed):
    return [id for one in feed.messages("release") for id in one.slots]


def test_slots_go_back_when_the_last_tensor_dies(start):  # noqa: F811
    feed, client = start(Graph(batches={"train": 40, "valid": 1, "test": 1}))
    iterator = iter(loader_of(client))
    batch = next(iterator)
    x, y, view = batch.x, batch.y, batch.x[2:3].t()
    del batch
    wait_until(lambda: feed.held == 4)
    assert released(feed) == []
    del y, x
    # The slot of labels and edges is free, that of the rows is not.
    wait_until(lambda: len(released(feed)) == 1)
    assert feed.held == 4
    same(view, x_of(feed, 0)[2:3].T)
    del view
    wait_until(lambda: len(released(feed)) == 2)
    assert len(list(iterator)) == 39
    wait_until(lambda: feed.held == 0)
    assert sorted(set(released(feed))) == list(range(1, feed.last_slot + 1))
    assert feed.last_slot < 20


def test_what_autograd_has_saved_keeps_the_slot(start):  # noqa: F811
    feed, client = start()
    iterator = iter(loader_of(client))
    weight = torch.ones(6, 2, requires_grad=True)
    batch = next(iterator)
    loss = (batch.x @ weight).sum()
    del batch
    wait_until(lambda: len(released(feed)) == 1)
    wanted = x_of(feed, 0).sum(0)
    loss.backward()
    assert torch.allclose(weight.grad[:, 0], torch.from_numpy(wanted))
    # Saved tensors are freed by the backward pass, on its thread.
    wait_until(lambda: len(released(feed)) == 2)
    iterator.close()


def test_a_tensor_may_die_on_any_thread(start):  # noqa: F811
    feed, client = start()
    kept = [next(iter(loader_of(client)))]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    wait_until(lambda: len(released(feed)) == 8 or feed.held == 0)


def test_the_next_batch_in_a_slot_is_the_daemons(start, caplog):  # noqa: F811
    """A script that writes a page of each batch: own pages are given up."""
    feed, client = start(Graph(dim=LARGE, batches={"train": 30, "valid": 1, "test": 1}))
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        batch.x[0, 5] = -1
        batch.edge_index[:] = 0
        assert batch.x[0, 5] == -1
        del batch
    assert number == 29 and feed.last_slot < 20
    assert feed.messages("seconds") == [] or not any(one.copies for one in
                                                     feed.messages("seconds"))
    assert caplog.records == []


def test_a_script_that_writes_much_gets_copies(start, caplog):  # noqa: F811
    feed, client = start(Graph(dim=LARGE, batches={"train": 12, "valid": 1, "test": 1}))
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        batch.x.mul_(2)
    wait_until(lambda: feed.held == 0)
    assert batch.x.sum() > 0  # The last one was a copy.
    warned, = caplog.records
    assert "writes into x" in warned.getMessage() and warned.levelno == logging.WARNING


def test_without_a_pagemap_all_pages_are_given_up(start, monkeypatch):  # noqa: F811
    monkeypatch.setattr(slots_module, "_PAGEMAP", "/nowhere")
    feed, client = start(Graph(dim=LARGE, batches={"train": 12, "valid": 1, "test": 1}))
    for number, batch in enumerate(loader_of(client)):
        same(batch.x, x_of(feed, number))
        batch.x.zero_()


def test_kept_batches_do_not_stop_the_daemon(start, caplog):  # noqa: F811
    feed, client = start(credits=3)
    kept = list(loader_of(client))
    for number, batch in enumerate(kept):
        same(batch.x, x_of(feed, number))
    warned, = caplog.records
    assert "keeps 2 batches" in warned.getMessage()
    wait_until(lambda: feed.held == 2)  # The copies' slots have come back.
    del kept, batch
    gc.collect()
    wait_until(lambda: feed.held == 0)
    assert sum(one.copies for one in feed.messages("seconds")) <= 5


def test_tensors_outlive_the_loader_and_its_job(start):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    kept = next(iter(loader))
    loader.close()
    wait_until(lambda: feed.messages("bye"))
    same(kept.x, x_of(feed, 0))
    session, = feed.sessions
    assert session.is_alive() and len(client.job("feed-1").id)
    del kept
    wait_until(lambda: not session.is_alive())
    assert session.held == 0


def test_batches_of_a_stopped_pass_go_back_unseen(start):  # noqa: F811
    feed, client = start()
    loader = loader_of(client)
    for _ in range(5):
        next(iter(loader))  # The daemon has sent more when the pass is left.
    assert len(list(loader)) == 7
    wait_until(lambda: feed.held == 0)


def test_pinned_memory_is_the_scripts_own(start, monkeypatch):  # noqa: F811
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda values: values.clone())
    feed, client = start(Graph(batches={"train": 1, "valid": 1, "test": 1}))
    kept = list(loader_of(client, pin_memory=True))
    wait_until(lambda: feed.held == 0)
    same(kept[0].x, x_of(feed, 0))


def test_own_pages():
    import mmap
    pages = mmap.mmap(-1, 100 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
    address = torch.frombuffer(pages, dtype=torch.uint8).data_ptr()
    assert slots_module.own_pages(address, len(pages)) == []
    for page in (3, 4, 50, 99):
        pages[page * mmap.PAGESIZE] = 1
    found = slots_module.own_pages(address, len(pages))
    if found is None:
        pytest.skip("the kernel does not show the pagemap")
    assert found == [(3, 2, 2), (50, 1, 1), (99, 1, 1)]


def test_many_batches_leave_nothing_behind(start):  # noqa: F811
    feed, client = start(Graph(batches={"train": 400, "valid": 1, "test": 1}))
    loader = loader_of(client)
    counts = []
    for _ in range(3):
        for batch in loader:
            pass
        del batch
        wait_until(lambda: feed.held == 0)
        counts.append((len(os.listdir("/proc/self/fd")), feed.last_slot))
    # Slots are replaced while larger batches come.
    assert counts[2][0] <= counts[0][0] + 6 and counts[2][1] <= counts[0][1] + 2
