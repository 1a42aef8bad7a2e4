"""A seed inside a program: how to join, and what it reports."""

import gc
import os
import subprocess
import sys
import threading
import time

import pytest

import nexar


class Heard:
    """The events of a seed, with waits for them."""

    def __init__(self):
        self.events = []
        self.came = threading.Condition()

    def __call__(self, event):
        with self.came:
            self.events.append(event)
            self.came.notify_all()

    def wait_for(self, kind):
        def found():
            return [event for event in self.events if event.kind == kind]

        with self.came:
            assert self.came.wait_for(found, 120), (kind, self.events)
            return found()


def join(by, code="pass"):
    """A process that joins a seed or a rank; |code| runs in the world `comm`."""
    text = f"import os, nexar\nwith nexar.init(join=os.environ['BY']) as comm:\n    {code}\n"
    env = {**os.environ, "BY": by.join_string}
    return subprocess.Popen([sys.executable, "-c", text], env=env, stderr=subprocess.DEVNULL)


def test_seed():
    with nexar.Seed(world_size=1) as seed:
        assert seed.join_string
        with nexar.init(join=seed.join_string) as comm:
            assert comm.size == 1
            assert comm.join_string == seed.join_string
    with pytest.raises(nexar.InvalidError, match="closed"):
        seed.join_string
    with pytest.raises(nexar.InvalidError, match="closed"):
        seed.on_event(print)
    with pytest.raises(nexar.InvalidError, match="world_size"):
        nexar.Seed()


def test_a_world_without_a_seed_has_no_join_string(comm):
    with pytest.raises(nexar.NotSupportedError, match="join_string"):
        comm.join_string


def test_a_seed_reports_joins_leaves_and_the_end():
    heard = Heard()
    with nexar.Seed(world_size=2, listen="127.0.0.1") as seed:
        seed.on_event(heard)
        other = join(seed)
        with nexar.init(join=seed.join_string) as comm:
            assert comm.size == 2
        assert other.wait(120) == 0
        ended = heard.wait_for("ended")
    assert [event.joined for event in heard.wait_for("joined")] == [1, 2]
    assert len(heard.wait_for("formed")) == len(ended) == 1
    assert sorted(event.rank for event in heard.wait_for("left")) == [0, 1]
    assert all(event.world == 2 and event.text for event in heard.events)


def test_a_process_that_a_rank_starts_joins_by_its_join_string():
    heard = Heard()
    with nexar.Seed(world_size=1, listen="127.0.0.1") as seed:
        seed.on_event(heard)
        with nexar.init(join=seed.join_string) as comm:
            other = join(comm, "comm.send(bytes([comm.size]), 0)")
            heard.wait_for("waiting")
            deadline = time.monotonic() + 120
            while comm.size == 1 and time.monotonic() < deadline:
                comm.update()
            size = bytearray(1)
            assert comm.recv(size, source=1).bytes == 1 and size[0] == 2
        assert other.wait(120) == 0
        assert heard.wait_for("changed")[0].world == 2


def test_a_seed_reports_a_failure():
    heard = Heard()
    with nexar.Seed(world_size=2, listen="127.0.0.1") as seed:
        seed.on_event(heard)
        ranks = [join(seed, "comm.barrier(); os.kill(os.getpid(), 9) if comm.rank else comm.recv(bytearray(1))")
                 for _ in range(2)]  # fmt: skip
        assert [event.rank for event in heard.wait_for("failed")] == [1]
        for rank in ranks:
            rank.wait(120)


def test_an_exception_in_the_function_of_a_seed_is_printed_and_the_world_forms(monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(str(what.exc_value)))
    with nexar.Seed(world_size=1) as seed:
        seed.on_event(lambda event: 1 / 0)
        nexar.init(join=seed.join_string).close()
    assert raised and "division" in raised[0]


def test_the_function_of_a_seed_replaces_itself_and_is_told_that_it_cannot_close():
    heard, errors = Heard(), []

    def first(event):
        seed.on_event(heard)
        try:
            seed.close()
        except nexar.InvalidError as err:
            errors.append(str(err))

    with nexar.Seed(world_size=1) as seed:
        seed.on_event(first)
        nexar.init(join=seed.join_string).close()
        heard.wait_for("ended")
    assert len(errors) == 1 and "another thread" in errors[0]
    assert "joined" not in [event.kind for event in heard.events]


def test_none_and_what_is_no_function():
    with nexar.Seed(world_size=1) as seed:
        seed.on_event(lambda event: pytest.fail("it was removed"))
        seed.on_event(None)
        with pytest.raises(TypeError, match="on_event: fn is 3"):
            seed.on_event(3)
        nexar.init(join=seed.join_string).close()


def test_close_waits_for_the_function_that_runs():
    inside, done = threading.Event(), []

    def slow(event):
        inside.set()
        time.sleep(0.05)  # close() begins meanwhile, or later: both must end
        done.append(event.kind)

    seed = nexar.Seed(world_size=2)
    seed.on_event(slow)
    other = join(seed)
    assert inside.wait(120)
    seed.close()
    said = list(done)
    other.kill()
    other.wait(120)
    assert "joined" in said and done == said


def test_a_seed_whose_last_reference_goes_in_its_own_function_ends():
    held, gone = [nexar.Seed(world_size=1)], threading.Event()

    class Kept:
        def __call__(self, event):
            if event.kind == "ended":
                held.clear()
                gc.collect()

        def __del__(self):
            gone.set()

    held[0].on_event(Kept())
    nexar.init(join=held[0].join_string).close()
    assert gone.wait(120), "the seed keeps its function until it has stopped"
