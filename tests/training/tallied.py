"""Whether an evaluation says what a tally of its examples does."""

import numpy as np


def assert_tallied(metrics, want, unknown=0):
    """Every figure, and that there is none besides. unknown: the answers that no model can give."""
    metrics = dict(metrics)
    assert metrics.pop("unknown_labels", 0) == unknown
    assert set(metrics) == set(want) and set(metrics["tags"]) == set(want["tags"])
    for tag, values in want["tags"].items():
        assert set(metrics["tags"][tag]) == set(values)
        for name, figures in values.items():
            _assert_figures(metrics["tags"][tag][name], figures)
    _assert_figures(*({name: x for name, x in one.items() if name != "tags"} for one in (metrics, want)))


def _assert_figures(found, want):
    assert set(found) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
