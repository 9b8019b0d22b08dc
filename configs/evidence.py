"""The evidence task: Continual Memory (Zhang et al. 2021a) and Rehearsal Memory (Zhang et al. 2021b), appendix B.

    memjax train --config=configs/evidence.py:demo                   about 3 minutes on 2 cores, over .95
    memjax train --config=configs/evidence.py:small                  a CPU size on which rehearsal matters
    memjax train --config=configs/evidence.py:medium                 20 segments for 10 slots
    memjax train --config=configs/evidence.py:paper                  99.8 in 10 minutes of an H100; the paper's RM 28.4
    memjax train --config=configs/evidence.py:paper,discrete=1
    memjax train --config=configs/evidence.py:paper,system=directly  or multi_hop
    memjax train --config=configs/evidence.py:paper,memory=continual  the paper's CM: 28.4 / 31.7, discrete 22.1 / 25.0
    memjax train --config=configs/evidence.py:small,printed=1        Rehearsal or Continual Memory as they are printed
    memjax train --config=configs/evidence.py:small,memory=surprise  Titans' memory in place of RM's, or at any size
    memjax train --config=configs/evidence.py:small,memory=dnc       or any other memory
    memjax compare --config=configs/evidence.py:small --seeds=3      all of them, with and without rehearsal
    memjax train --config=configs/evidence.py:long                   R_l = 1000, K = N = 20

Ablations, each one override:
    --config.rehearsal.fragments=0        no rehearsal        --config.rehearsal.sampler=random    random sampler
    --config.rehearsal.familiarity=0      recollection only   --config.rehearsal.recollection=0    familiarity only
    --config.rehearsal.mask_ratio=0.15    15% masked          --config.memory.encoder=gru          GRU encoder
    --config.memory.update_heads=1        single head (CM)    --config.memory.slots=10             K
    --config.task.segment=20              N                   --config.memory.normalize=items      or mass, a mean
    --config.memory.context=0             no context          --config.memory.scores=additive      one kind of scores
    --config.memory.momentum=False        no momentum         --config.memory.forgetting=False     none (both: surprise)
    --config.memory.score_gain=3          scores larger       --config.rehearsal.tied=True         as printed: no matrix
    --config.memory.write_heads=4         heads of the write  --config.rehearsal.anneal_steps=4000  fades out
    --config.model.embeddings=sampler     begin with sampler's  --config.rehearsal.answer_after=200   rehearsal first
    --config.model.read_scores=dot        reader's: dot products  --config.rehearsal.balance=1  pulls as the answer does
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.memories.memory_registry import memory_settings

SIZES = {
    # R_f, R_l, R_q, R_a, R_c, groups
    "demo": {"facts": 100, "length": 60, "queries": 10, "answers": 5, "evidence": 5, "groups": 5},
    "small": {"facts": 200, "length": 50, "queries": 20, "answers": 10, "evidence": 5, "groups": 10},
    "medium": {"facts": 200, "length": 200, "queries": 20, "answers": 10, "evidence": 5, "groups": 10},
    "paper": {"facts": 400, "length": 200, "queries": 40, "answers": 30, "evidence": 5, "groups": 20},
    "long": {"facts": 2000, "length": 1000, "queries": 40, "answers": 30, "evidence": 10, "groups": 20},
}

ON_CPU = ("demo", "small", "medium")
# What differs from the defaults of the memories, for those that have it: on a CPU, at the papers' size.
SMALL = {"layers": 2, "memory_width": 32, "hidden": 64}
LARGE = {"layers": 3, "memory_width": 64, "hidden": 256}
# Ours, measured in docs/slots.md: an encoder that sees across the border of a segment; and half of the slots written by
# scores that tell items apart, with items of unit size, which takes more steps than `demo` has.
PRINTED = {"context": 0, "scores": "additive"}
IN_CONTEXT = {"context": 4}
EXTENDED = {"context": 4, "scores": "both", "position_std": 1.0}
# Continual Memory with scores of both kinds stores the stream before it answers, and then is slow to answer.
ONE_KIND = EXTENDED | {"scores": "additive"}


def get_config(arg: str = "demo") -> ConfigDict:
    """The variant named before the first comma; then system=, memory=, printed=, discrete=, seed=."""
    options = {"system": "memory", "memory": "rehearsal", "printed": False, "discrete": False, "seed": 0}
    variant, values = parse_arg(arg, "demo", **options)
    if variant not in SIZES:
        raise unknown("variant of configs/evidence.py", variant, SIZES)
    on_cpu = variant in ON_CPU
    continual = values["memory"] == "continual"
    own = values["system"] == "memory" and values["memory"] in ("rehearsal", "continual") and not values["printed"]
    reading = PRINTED if not own else IN_CONTEXT if variant == "demo" else ONE_KIND if continual else EXTENDED
    extended = reading in (ONE_KIND, EXTENDED)
    length = 20 if variant == "long" else 10

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "evidence", **SIZES[variant]})
    config.task.segment = length
    config.task.arrangement = "discrete" if values["discrete"] else "consecutive"
    grown = variant == "paper" and not values["printed"]
    long_streams = variant == "medium" or grown
    # Where streams grow, 800 for each of 40 x 30 answers are as many as the memory reads.
    config.task.update(train=800 if grown else 400, valid=5, test=20, seed=0)
    # In streams of full length alone nothing was learned in 2,000 steps: short ones tell first what evidence is.
    # At `paper` the longest grows for half of the steps.
    config.task.update(shortest=20 if long_streams else 0, curriculum=480_000 if grown else 0)

    if long_streams:
        reading = reading | {"time_constant": 10.0}  # with 1, half of a slot is gone after each of 20 segments
    own_sizes = {"rehearsal": reading, "continual": reading, "retention": {"policy": "st"}}
    own_sizes["stm"] = {"memory_width": 16 if on_cpu else 32}
    slots = 10 if variant == "medium" else 20
    config.memory = ConfigDict(memory_settings(values["memory"], slots, SMALL if on_cpu else LARGE, own_sizes))
    config.model = ConfigDict({"width": 64 if on_cpu else 128, "hops": 2, "head_layers": 0, "dtype": "float32"})
    # In streams of 20 segments embeddings are learned slowly: with random ones a memory guesses for thousands of steps.
    learned = long_streams and values["system"] == "memory" and not values["printed"]
    config.model.update(words="own", embeddings="sampler" if learned else "random")
    config.model.item_scale = config.model.width**0.5 if extended else 1.0
    config.model.update(query_scale=1.0, read_scores="additive")

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(
        fragments=5 if continual else 6, mask_ratio=0.5, deterministic=False, negatives=0, among="vocabulary"
    )
    config.rehearsal.update(sampler="random" if continual else "history", tied=False)
    config.rehearsal.update(answer_after=0, anneal_steps=0, balance=0.0)
    config.rehearsal.update(
        layers=2 if on_cpu else 3, heads=4, norm_slots=extended, position_std=0.12 if extended else 0.02
    )
    if own and variant in ("demo", "small"):  # as many as leave a choice among 6 and 5 segments
        most = {"demo": (4, 5), "small": (2, 4)}
        config.rehearsal.fragments = most[variant][continual]

    # Warm-up and clipping are ours to choose (the papers do not say).
    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 0, "clip_norm": 1.0})

    config.training = ConfigDict({"microbatches": 1, "seed": values["seed"], "log_every": 10})
    config.training.buckets = 5 if long_streams else 1
    if variant == "demo":
        config.training.update(steps=700, sampler_steps=1500, batch_size=64, validate_every=100, validate_examples=256)
        config.training.update(checkpoint_every=100)
    elif on_cpu:
        steps = 6000 if own or variant == "medium" else 3000
        config.training.update(steps=steps, sampler_steps=4000, batch_size=32, validate_every=250)
        config.training.update(checkpoint_every=250, validate_examples=1000)
    else:
        steps, validated = (15_000, 1000) if grown else (100_000, 6000)
        config.training.update(steps=steps, sampler_steps=10_000, batch_size=64, validate_every=2000)
        config.training.update(checkpoint_every=1000, validate_examples=validated)
    if own or long_streams:
        config.optimizer.decay_steps = config.training.steps // (5 if grown else 6)
    return config
