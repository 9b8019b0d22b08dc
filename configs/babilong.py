"""BABILong (Kuratov et al. 2024): facts of bAbI hidden in a book, asked for at its end, for layers and memories alike.

    memjax prepare babi --from=ARCHIVE --data_dir=data               once; and warandpeace.txt.gz into data
    memjax train --config=configs/babilong.py:lmm --data_dir=data            or mac, mag, mal; attention: no memory
    memjax train --config=configs/babilong.py:lmm,task=1 --data_dir=data     one task of bAbI; 0 is 1 to 5 jointly
    memjax train --config=configs/babilong.py:lmm,rule=deltanet --data_dir=data      or another of memjax.layers.RULES
    memjax train --config=configs/babilong.py:rehearsal --data_dir=data      or dnc, surprise, any other memory
    memjax compare --config=configs/babilong.py:lmm --of=lmm,mac,mag,mal,attention --data_dir=data     all layers
    memjax compare --config=configs/babilong.py:rehearsal --of=all --data_dir=data   all memories, rehearsed and not

Trained on the facts alone, then in texts of up to 512 and of up to 1,024 characters, tested in up to 16,384: layers
read words, memories sentences, of the same examples. Published figures are of large language models and of other
books. Ablations, each one override:
    --config.task.curriculum=False     --config.rehearsal.fragments=0     --config.model.momentum=False
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown
from memjax.layers import rule
from memjax.memories import registry
from memjax.memories.memory_registry import memory_settings

DIRECT = ("directly", "multi_hop")
LAYERS = ("attention", "lmm", "mac", "mag", "mal")
TASKS = "1,2,3,4,5"
STEPS, BATCH = 2500, 32


# What differs from the defaults of the memories, for those that have it: as in configs/babi.py for one task.
SIZES = {"layers": 2, "memory_width": 32, "hidden": 64}
START = {"time_constant": 20.0, "write_gain": 6.0, "initial_std": 0.2}
OWN = {"rehearsal": START, "continual": START, "retention": {"policy": "st"}, "stm": {"memory_width": 16}}


def get_config(arg: str = "lmm") -> ConfigDict:
    """The layer or the memory named before the first comma, or `directly`, `multi_hop`; or layer=, memory=.

    Then task=, rule= of layers, seed=.
    """
    variant, values = parse_arg(arg, "lmm", layer="", memory="", task=0, rule="titans", seed=0)
    for names, given in ((LAYERS, values["layer"]), (registry, values["memory"])):
        if given and given not in names:
            raise unknown("variant of configs/babilong.py", given, names)
        variant = given or variant
    require(not (values["layer"] and values["memory"]), "configs/babilong.py takes layer= or memory=, not both")
    if variant not in (*LAYERS, *registry, *DIRECT):
        raise unknown("variant of configs/babilong.py", variant, [*LAYERS, *registry, *DIRECT])
    layers = variant in LAYERS
    require(layers or values["rule"] == "titans", f"rule= is for layers; {variant} has none")

    config = ConfigDict()
    config.system = "sequence" if layers else variant if variant in DIRECT else "memory"
    config.task = ConfigDict({"name": "babilong" if layers else "babilong_stream"})
    config.task.update(tasks=str(values["task"]) if values["task"] else TASKS, folder="en-10k")
    config.task.update(haystack="warandpeace.txt.gz", length=1024, lengths="0,512,1024,2048,4096,8192,16384")
    # 5,000 of the book's 17,563 words are 95 % of what it says.
    config.task.update(words=12, vocabulary=5000, curriculum=True, valid=20, test=40, seed=0, data_dir="data")
    # Each example is read once: the curriculum is as long as the training.
    config.task.train = STEPS * BATCH

    config.model = layer_sizes(variant, values["rule"]) if layers else ConfigDict()
    if not layers:
        memory = "rehearsal" if variant in DIRECT else variant
        config.memory = ConfigDict(memory_settings(memory, 20, SIZES, OWN))
        config.model.update(width=64, hops=2, head_layers=1, dtype="float32")
        config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
        config.rehearsal.update(fragments=6, mask_ratio=0.5, deterministic=False, negatives=0, among="vocabulary")
        # A history sampler would be trained on the beginning of the curriculum alone.
        config.rehearsal.update(sampler="random", layers=2, heads=4, norm_slots=True)

    config.optimizer = ConfigDict({"learning_rate": 3e-3 if layers else 1e-3, "warmup_steps": 100, "clip_norm": 1.0})
    config.optimizer.decay_steps = STEPS // 3
    config.training = ConfigDict({"steps": STEPS, "batch_size": BATCH, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=25, validate_every=500, validate_examples=300, checkpoint_every=500)
    if not layers:
        config.training.update(sampler_steps=0, buckets=6)
    return config


def layer_sizes(layer: str, name: str) -> ConfigDict:
    """The model of a layer and of a rule, as in configs/needle.py."""
    model = ConfigDict({"layer": layer, "width": 64, "depth": 2, "heads": 2, "hidden": 128, "window": 32})
    model.update(persistent=0, momentum=True, forgetting=True, convolution=True, time_constant=1000.0)
    model.update(dropout=0.0, carry_state=0.0, lower_horizon=0.0, gate_cost=0.0, dtype="float32")
    model.update(gradient_at="token", chunk=32)
    model.update(memory_layers=1, expansion=2, memory_norm=False, horizon=0.0, rate_bound=0.0, bounded="write")
    model.update(loss="l2", decay_before_gradient=False, decay="token", impl="closed_form")
    model.update(rule(name))
    return model
