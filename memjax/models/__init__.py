"""Around a memory: query encoders, readers, heads, rehearser; systems that read the stream itself; sequence models."""

from typing import Any

from memjax.deprecated import moved, renamed
from memjax.layers import LMM, MAC, MAG, MAL, DNCCell, NTMCell, NUTMCell, WindowAttention
from memjax.models.attention_sum_reader import AttentionSumReader
from memjax.models.bidaf import BiDAF, SpanLogits, best_span
from memjax.models.caser import Caser
from memjax.models.dien import DIEN
from memjax.models.direct import DirectlyReason, HistorySampler, MultiHopReason
from memjax.models.document_reader import DocumentReader
from memjax.models.gru4rec import GRU4Rec
from memjax.models.hcrn import HCRN
from memjax.models.language_model import LanguageModel, SequenceModel, generate
from memjax.models.memory_model import MemoryModel
from memjax.models.memory_network import MemN2N, answer_rows
from memjax.models.memory_network_language import MemN2NLanguage
from memjax.models.memory_network_ranker import MemN2NRanker
from memjax.models.msan import MSAN
from memjax.models.multi_stream import MultiStream
from memjax.models.navigator import Navigator
from memjax.models.recommender import Recommender
from memjax.models.rum import RUM, RUMFeatures
from memjax.models.sasrec import SASRec
from memjax.models.stream_reader import StreamReader
from memjax.models.text_reader import TextReader
from memjax.models.video_readers import EMN, ESA, EVQA

MOVED = {
    "build": "memjax.experiments.stream_qa",
    "build_cell": "memjax.experiments.algorithmic_family",
    "build_navigator": "memjax.experiments.maze",
    "build_reader": "memjax.experiments.retention",
    "build_sampler": "memjax.experiments.stream_qa",
    "build_sequence": "memjax.experiments.sequence",
}
System = (
    MemoryModel | DirectlyReason | MultiHopReason | HistorySampler | TextReader | EVQA | EMN | ESA | HCRN | Recommender
)

__all__ = [
    "DIEN",
    "EMN",
    "ESA",
    "EVQA",
    "HCRN",
    "LMM",
    "MAC",
    "MAG",
    "MAL",
    "MSAN",
    "RUM",
    "AttentionSumReader",
    "BiDAF",
    "Caser",
    "DNCCell",
    "DirectlyReason",
    "DocumentReader",
    "GRU4Rec",
    "HistorySampler",
    "LanguageModel",
    "MemN2N",
    "MemN2NLanguage",
    "MemN2NRanker",
    "MemoryModel",
    "MultiHopReason",
    "MultiStream",
    "NTMCell",
    "NUTMCell",
    "Navigator",
    "RUMFeatures",
    "Recommender",
    "SASRec",
    "SequenceModel",
    "SpanLogits",
    "StreamReader",
    "System",
    "TextReader",
    "WindowAttention",
    "answer_rows",
    "best_span",
    "generate",
]


def __getattr__(name: str) -> Any:
    if name in MOVED:
        return moved(__name__, MOVED, name)
    return renamed(__name__, {"AskedMemory": MemoryModel}, name)
