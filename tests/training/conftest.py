import pytest
from training.tiny import quick_compiles


@pytest.fixture(scope="module", autouse=True)
def quickly():
    with quick_compiles():
        yield
