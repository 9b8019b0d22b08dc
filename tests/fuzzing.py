"""What random configs are made from, and the one rule that all fuzzing has: it works, or says one line, and soon."""

import contextlib
import copy
import signal

from hypothesis import strategies as st

from memjax.errors import TOO_LARGE, MemjaxError, is_too_large

SECONDS = 60  # none takes a tenth of it; more is a hang
# Wrong types, and numbers at and beyond every edge. Sizes that take long and still fit are not among them.
JUNK = (
    None, "", "x", "a\nb", "\x00", "3,5", "3,x", "st", "discrete", "file", "../x", [], [1], {}, {"a": 1}, b"x", True,
    False, float("nan"), float("inf"), -1.5, 0.5, 1e-30, 1e38, 1e300, 10**30, -(10**30), 2**31, 2**31 - 1, -(2**31),
    2**24, -1,
)  # fmt: skip
SMALL = (*range(9), 10, 12, 16, 20, 0.1, 0.5, 0.9, 1.0, 2.0)
values = st.one_of(st.sampled_from(JUNK), st.sampled_from(SMALL), st.integers(), st.floats(), st.text(max_size=5))
MISSING, ADDED = "missing", "added"
changes = st.lists(
    st.tuples(st.integers(0, 999), st.one_of(values, st.just(MISSING), st.just(ADDED))), min_size=1, max_size=3
)


def changed(base, changes):
    """A config with some of its settings changed; the number says which."""
    config = copy.deepcopy(base)
    for number, value in changes:
        paths = [(config, key) for key in config]
        paths += [(group, key) for group in config.values() if isinstance(group, dict) for key in group] * 4
        if not paths:
            break
        group, key = paths[number % len(paths)]
        if value == MISSING:
            del group[key]
        elif value == ADDED:
            group[f"{key}\n"] = 1
        else:
            group[key] = value
    return config


@contextlib.contextmanager
def soon():
    """Fails if what is within hangs."""

    def late(*_):
        raise AssertionError(f"it takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refusal(function):
    """What a call refuses in one line, None if it works; any other error is raised. The command line has this rule."""
    with soon():
        try:
            function()
        except MemjaxError as error:
            said = str(error)
        except (MemoryError, OverflowError, RuntimeError) as error:
            if not is_too_large(error):
                raise
            said = TOO_LARGE
        else:
            return None
    assert len(said) > 10 and len(said.splitlines()) == 1, said
    return said
