"""What is said of parameters that are another model's."""

import contextlib
from collections.abc import Iterator

from flax.errors import FlaxError

from memjax.errors import MemjaxError, one_line


@contextlib.contextmanager
def own_params() -> Iterator[None]:
    """What Flax raises inside for parameters of another model, as one `MemjaxError`."""
    try:
        yield
    except FlaxError as error:
        raise MemjaxError(f"these params are not this model's: {one_line(error)}") from error
