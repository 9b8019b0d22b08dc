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
    taken = family.name in families and families[family.name].config.__qualname__ != family.config.__qualname__
    require(not taken, f"there is a family {family.name!r} already; give yours another name")
    families[family.name] = family
    return family
