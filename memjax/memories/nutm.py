"""The Neural Stored-program Memory (Le et al. 2020) under the contract: a DNC whose controller chooses its program."""

from typing import NamedTuple

import jax.numpy as jnp

from memjax import ops
from memjax.checks import check_penalties
from memjax.memories.controlled import ControlledMemory
from memjax.memories.controlled_core import NUTMCore
from memjax.ops.exportable import exportable
from memjax.typing import Array, Float, Key

DECAY = 0.9  # of the penalty, from one item to the next


@exportable
class NUTMState(NamedTuple):
    """The DNC, and the weight of the penalty that the next item pays."""

    core: ops.DNCState
    penalty: Float[Array, ""]


class NUTM(ControlledMemory):
    """The interface is put together anew for each item from `programs` matrices: `ops.interface` with `ProgramParams`.

    The auxiliary loss is `key_penalty` times `ops.key_similarity`, .9 as heavy with every item that was written: keys
    that were alike would choose alike. (Its authors' code takes the mean over pairs, and lets it fade with training's
    steps, not the stream's items.) With one program it is the `DNC`. Source: Neural Stored-program Memory (1906.08862),
    3; bAbI: 4 programs, LSTM 172, 192 rows of 64, 4 heads.

    Args:
        num_slots: K, the rows.
        width: of an item, and of a slot as it is shown.
        memory_width: of a row.
        read_heads: how many rows are read at once.
        hidden: units of the controller.
        dtype: of the products.
        programs: how many V_i, each of a whole interface.
        program_width: of their keys, and of what the controller asks them with.
        key_penalty: the weight of the auxiliary loss.

    >>> import jax, jax.numpy as jnp
    >>> from memjax.memories import NUTM, memorize
    >>> memory = NUTM(num_slots=5, width=8, memory_width=4, read_heads=2, hidden=6, programs=3)
    >>> params = memory.init(jax.random.key(0), jnp.ones((2, 3, 8)), method=memorize)
    >>> params["params"]["interface_programs"].shape
    (3, 6, 33)
    """

    programs: int = 4
    program_width: int = 16
    key_penalty: float = 0.1

    def validate(self) -> None:
        super().validate()
        check_penalties(self, "key_penalty")

    def core(self) -> NUTMCore:
        return NUTMCore.of(self, self.num_slots)

    def initial_state(self) -> NUTMState:
        return NUTMState(self.core().start(), jnp.asarray(self.key_penalty, jnp.float32))

    def write_item(
        self, state: NUTMState, features: Float[Array, "h4"], *, key: Key | None = None
    ) -> tuple[NUTMState, Float[Array, ""]]:
        core = self.core().step(self.params_of_step, state.core, features)
        aux_loss = state.penalty * ops.key_similarity(self.params_of_step.interface)
        return NUTMState(core, DECAY * state.penalty), aux_loss

    def rows(self, state: NUTMState) -> Float[Array, "K W"]:
        return state.core.memory
