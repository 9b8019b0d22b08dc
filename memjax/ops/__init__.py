"""Pure functions on arrays: one example, no batch axis; `jax.vmap` is the caller's.

Parameters and state come in as arguments (NamedTuples of arrays) and go out as results. Nothing here knows Flax.

For an array any op takes a NumPy array, a number or a list of numbers too; what does not fit its annotation is one
line, a `MemjaxError`, while JAX traces. `memjax.ops.checked` says by which rule.
"""

from memjax.ops.addressing import (
    allocation_weights,
    content_weights,
    erase_and_add,
    link_update,
    sharpen_weights,
    shift_weights,
    usage_update,
)
from memjax.ops.attention import (
    AdditiveParams,
    DotParams,
    HopParams,
    MultiHeadScoreParams,
    ReadParams,
    additive_scores,
    dot_scores,
    multi_hop_read,
    project_items,
    slot_attention,
)
from memjax.ops.buffer import Buffer, buffer_append, buffer_evict, straight_through_evict
from memjax.ops.compressive import (
    CompressorParams,
    MemoryAttentionParams,
    compress_rows,
    memory_attention,
    reconstruction_loss,
)
from memjax.ops.controller import (
    ExternalParams,
    InterfaceParams,
    LSTMParams,
    ProgramParams,
    interface,
    key_similarity,
    lstm_inputs,
    lstm_step,
)
from memjax.ops.dnc import (
    BlocksState,
    DNCState,
    dmsdnc_interface_size,
    dmsdnc_start,
    dmsdnc_step,
    dnc_interface_size,
    dnc_start,
    dnc_step,
)
from memjax.ops.gru import GRUParams, MultiHeadGRUParams, gru_scan, gru_step, project_aligned, update_slots
from memjax.ops.induction import (
    MIMNInputs,
    MIMNParams,
    MIMNState,
    mimn_inputs,
    mimn_start,
    mimn_step,
)
from memjax.ops.losses import covariance_norm, familiarity_loss, recollection_loss
from memjax.ops.ntm import NTMState, ntm_interface_size, ntm_start, ntm_step
from memjax.ops.periodic import PeriodicState, periodic_write
from memjax.ops.recurrence import linear_recurrence
from memjax.ops.retention import (
    InputMatchingParams,
    LinearParams,
    SpatialParams,
    SpatialScoreParams,
    TemporalScoreParams,
    input_matching,
    spatial_features,
    spatial_scores,
    temporal_scores,
)
from memjax.ops.returns import generalized_advantages
from memjax.ops.rows import newest_rows, preceding_rows
from memjax.ops.sentence_hops import (
    centred_sentence_weights,
    centred_weights,
    embed_sentence,
    embed_weights,
    memory_hop,
    position_weights,
    sentence_weights,
)
from memjax.ops.slots import SegmentFeatures, SlotWriteParams, segment_features, write_segment, write_stream
from memjax.ops.surprise import surprise_linear
from memjax.ops.surprise_deep import surprise_memory, surprise_mlp
from memjax.ops.surprise_recurrence import momentum_recurrence
from memjax.ops.surprise_shards import surprise_linear_sharded
from memjax.ops.surprise_state import SurpriseState
from memjax.ops.two_memory import (
    SAMParams,
    TwoMemoryFeatures,
    TwoMemoryParams,
    TwoMemoryState,
    self_attentive_memory,
    two_memory_step,
)

__all__ = [
    "AdditiveParams",
    "BlocksState",
    "Buffer",
    "CompressorParams",
    "DNCState",
    "DotParams",
    "ExternalParams",
    "GRUParams",
    "HopParams",
    "InputMatchingParams",
    "InterfaceParams",
    "LSTMParams",
    "LinearParams",
    "MIMNInputs",
    "MIMNParams",
    "MIMNState",
    "MemoryAttentionParams",
    "MultiHeadGRUParams",
    "MultiHeadScoreParams",
    "NTMState",
    "PeriodicState",
    "ProgramParams",
    "ReadParams",
    "SAMParams",
    "SegmentFeatures",
    "SlotWriteParams",
    "SpatialParams",
    "SpatialScoreParams",
    "SurpriseState",
    "TemporalScoreParams",
    "TwoMemoryFeatures",
    "TwoMemoryParams",
    "TwoMemoryState",
    "additive_scores",
    "allocation_weights",
    "buffer_append",
    "buffer_evict",
    "centred_sentence_weights",
    "centred_weights",
    "compress_rows",
    "content_weights",
    "covariance_norm",
    "dmsdnc_interface_size",
    "dmsdnc_start",
    "dmsdnc_step",
    "dnc_interface_size",
    "dnc_start",
    "dnc_step",
    "dot_scores",
    "embed_sentence",
    "embed_weights",
    "erase_and_add",
    "familiarity_loss",
    "generalized_advantages",
    "gru_scan",
    "gru_step",
    "input_matching",
    "interface",
    "key_similarity",
    "linear_recurrence",
    "link_update",
    "lstm_inputs",
    "lstm_step",
    "memory_attention",
    "memory_hop",
    "mimn_inputs",
    "mimn_start",
    "mimn_step",
    "momentum_recurrence",
    "multi_hop_read",
    "newest_rows",
    "ntm_interface_size",
    "ntm_start",
    "ntm_step",
    "periodic_write",
    "position_weights",
    "preceding_rows",
    "project_aligned",
    "project_items",
    "recollection_loss",
    "reconstruction_loss",
    "segment_features",
    "self_attentive_memory",
    "sentence_weights",
    "sharpen_weights",
    "shift_weights",
    "slot_attention",
    "spatial_features",
    "spatial_scores",
    "straight_through_evict",
    "surprise_linear",
    "surprise_linear_sharded",
    "surprise_memory",
    "surprise_mlp",
    "temporal_scores",
    "two_memory_step",
    "update_slots",
    "usage_update",
    "write_segment",
    "write_stream",
]
