import signal

import pytest

import nexar

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background


@pytest.fixture
def comm():
    with nexar.init() as world:
        yield world
