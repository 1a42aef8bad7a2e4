"""The ranks of a world run the same tests in the same order (nexar run ... pytest)."""

import signal

import pytest

import nexar

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background


@pytest.fixture(scope="session")
def comm():
    # A rank whose test fails leaves the others in the middle of a call: -x ends it, and they get
    # a PeerError.
    with nexar.init() as world:
        yield world
