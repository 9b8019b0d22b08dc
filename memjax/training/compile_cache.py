"""Compiled programs, kept for the next time: most of a short run is compiling."""

import hashlib
import os
import platform
from pathlib import Path

import jax

from memjax.errors import remark
from memjax.files import writing

OFF = "off"
LARGEST = 2 * 2**30  # bytes; what was used longest ago goes first. For a bound JAX wants the package filelock


def keep_compiled(folder: str | None) -> None:
    """Keeps compiled programs in a folder.

    Args:
        folder: "off" for nowhere; None for one of the user's cache, unless the environment says something of JAX's own
            cache. Where that folder cannot be, nothing is kept, and a remark says so.

    Raises:
        MemjaxError: for a folder that was named and cannot be written to.
    """
    if folder == OFF:
        jax.config.update("jax_enable_compilation_cache", False)
        return
    if folder is None:
        if already():
            return
        place = default_folder()
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remark(f"compiled programs are not kept: {place} cannot be made ({error.strerror})")
            return
        folder = str(place)
        jax.config.update("jax_compilation_cache_max_size", LARGEST)
    elif "://" not in folder:
        with writing(Path(folder)):
            Path(folder).mkdir(parents=True, exist_ok=True)  # JAX would only warn
    jax.config.update("jax_compilation_cache_dir", folder)


def already() -> str | None:
    """The cache that JAX has from its own settings."""
    return getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009, jax.config makes it as it goes


def default_folder() -> Path:
    """A folder of the user's cache, one for each kind of processor: what is compiled for one may not run on another."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else [platform.processor()]
    kind = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    name = f"{platform.machine()}-{hashlib.sha256(repr(kind).encode()).hexdigest()[:8]}"
    return Path(cache) / "memjax" / "compiled" / name
