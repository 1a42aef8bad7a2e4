import pytest

import nexar


@pytest.fixture
def comm():
    with nexar.init() as world:
        yield world
