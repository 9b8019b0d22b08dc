"""What other packages add to the families of experiments."""

from memjax.errors import require
from memjax.experiments import Family, families


def register_family(family: Family) -> Family:
    """Makes a family of another package known, so that tasks can be for it: `register_task(..., family=NAME)`.

    Args:
        family: the record.

    Returns:
        The same.

    Raises:
        MemjaxError: for what is no `Family`, and for a name that another one has.
    """
    require(isinstance(family, Family), f"a family must be a memjax.experiments.Family, not {family!r:.80}")
    # The same module may be imported twice, as by a notebook that is run again.
    own, taken = (f"{f.config.__module__}.{f.config.__qualname__}" for f in (family, families.get(family.name, family)))
    require(own == taken, f"there is a family {family.name!r} already; give yours another name")
    families[family.name] = family
    return family
