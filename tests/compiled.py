"""Which programs are compiled meanwhile."""

import contextlib

import jax


@contextlib.contextmanager
def compiled_programs():
    """A list with an entry for each program that is compiled meanwhile, or loaded from a cache."""
    compiled = []

    def listen(event, duration, **kwargs):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
