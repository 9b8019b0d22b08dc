"""Names of the version before still work, and say what they are called now."""

import pytest

from memjax import memories, models


@pytest.mark.parametrize(
    ("room", "old", "new"), [(memories, "RetentionMemory", "EvictionMemory"), (models, "AskedMemory", "MemoryModel")]
)
def test_an_old_name_is_the_new_class_with_a_warning(room, old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is called {room.__name__}.{new} now"):
        found = getattr(room, old)
    assert found is getattr(room, new)
    assert old not in room.__all__ and new in room.__all__
    with pytest.raises(AttributeError, match=f"{room.__name__}' has no attribute '{old}s'"):
        getattr(room, f"{old}s")
