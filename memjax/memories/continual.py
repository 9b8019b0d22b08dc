"""Continual Memory (Zhang et al. 2021): the predecessor of Rehearsal Memory, with a multi-head gated update."""

from memjax import ops
from memjax.checks import at_least, check_multiple
from memjax.deprecated import old_keyword
from memjax.memories.rehearsal import RehearsalMemory
from memjax.memories.weights import multi_head_gru_params


@old_keyword("retention", new="time_constant")
class ContinualMemory(RehearsalMemory):
    """Continual Memory, Eq. 1 to 3: as `RehearsalMemory`, but Z small GRUs between projections update each slot.

    `m_kz = W_z^M m_k`, `l_kz = W_z^L l_k`, `m_kz <- GRU_z(m_kz, l_kz)`, `m_k <- W^o concat_z(m_kz)`. The paper's
    "single head" is `update_heads=1`, with the projections. W^M starts orthogonal over the heads together, and W^o as
    its transpose: closed gates then keep a slot as it is, where random matrices would turn it round with every write.
    Nothing in the equations bounds the slots: weights whose product W^o W^M expands let them grow with the stream.

    Args:
        num_slots: K.
        width: as of `RehearsalMemory`, and so are those up to `dtype`.
        segment: the most items of a segment.
        layers: of the encoder.
        heads: of its attention.
        encoder: "transformer" or "gru".
        normalize: "slots", "items" or "mass".
        initial_std: of the slots before the first segment.
        time_constant: for about how many segments a slot keeps what is not overwritten, at the start.
        write_gain: how strongly a slot takes items in, at the start.
        dtype: of the products.
        context: how many items before a segment its encoder sees, besides.
        scores: "additive", "dot" or "both".
        position_std: of the encoder's positions.
        score_gain: how many times larger than usual the scores are at the start.
        write_heads: how many heads the write has, each for as many of the small GRUs.
        update_heads: Z.
    """

    update_heads: int = 4

    def validate(self) -> None:
        super().validate()
        at_least(self, 1, "update_heads")
        check_multiple(self, "width", "update_heads")
        check_multiple(self, "update_heads", "write_heads")

    def update_params(self, name: str) -> ops.MultiHeadGRUParams:
        return multi_head_gru_params(
            self, name, self.width, self.update_heads, gain=self.write_gain, time_constant=self.time_constant
        )
