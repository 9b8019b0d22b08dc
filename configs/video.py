"""Questions about films of shapes that move and meet (Rehearsal Memory, 4.3.2, which has ActivityNet-QA).

    memjax train --config=configs/video.py:shapes                       Rehearsal Memory, width 64
    memjax train --config=configs/video.py:shapes,memory=dnc            or any other memory
    memjax train --config=configs/video.py:shapes,system=e_sa           reads all frames itself; or e_vqa, e_mn, hcrn
    memjax compare --config=configs/video.py:shapes --of=all            all memories

Films are made up: 300 frames of 32 x 32 pixels as 128 features of a fixed random convolution, up to four questions of
each of six types, 19 answers; those of train are shorter, down to a third, and so cheaper. As in the paper N = K = 20,
two hops, and recollection tells a hidden frame from 30 others of its film; width 64, where the paper has 256. Rehearsal
and Continual Memory read a segment by a GRU, the ablation of the paper's Table 6: a direction is told by what changes
from frame to frame, which took a Transformer of one layer longer to learn from random embeddings (with the sampler's it
is ahead: docs/results/texts_and_videos.md). Features of real videos:
docs/tasks/video.md. Ablations as in configs/evidence.py:
    --config.rehearsal.fragments=0     --config.rehearsal.familiarity=0.0     --config.rehearsal.sampler=random
    --config.memory.encoder=transformer     --config.task.shortest=0
    --config.memory.normalize=mass     --config.model.embeddings=sampler
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown
from memjax.memories.memory_registry import memory_settings

VARIANTS = ("shapes",)
# What differs from the defaults of the memories, for those that have it: as in configs/stories.py.
SIZES = {"layers": 1, "heads": 4, "memory_width": 64, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
OWN = {"rehearsal": {"encoder": "gru"}, "continual": {"encoder": "gru", "scores": "additive"}}
OWN |= {"retention": {"policy": "st"}, "stm": {"memory_width": 22}}


def get_config(arg: str = "shapes") -> ConfigDict:
    """`shapes` before the first comma; then system=, memory=, width=, seed=."""
    variant, values = parse_arg(arg, "shapes", system="memory", memory="rehearsal", width=64, seed=0)
    if variant not in VARIANTS:
        raise unknown("variant of configs/video.py", variant, VARIANTS)
    continual, width = values["memory"] == "continual", values["width"]
    require(width > 0, f"config argument width={width} must be at least 1")

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "video", "frames": 300, "segment": 20, "features": 128})
    config.task.update(asked=4, train=8000, valid=50, test=200, seed=0, shortest=4)

    config.memory = ConfigDict(memory_settings(values["memory"], 20, SIZES, OWN))
    config.model = ConfigDict({"width": width, "hops": 2, "head_layers": 1, "dtype": "float32"})
    config.model.item_scale = width**0.5

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(fragments=3 if continual else 4, mask_ratio=0.5, deterministic=False)
    config.rehearsal.update(negatives=30, among="stream", sampler="random" if continual else "history")
    config.rehearsal.update(layers=1, heads=4, norm_slots=True, position_std=width**-0.5)

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 1000, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 32, "microbatches": 1, "seed": values["seed"], "log_every": 50})
    # 250 steps are one pass over the films of train.
    config.training.update(steps=4000, sampler_steps=300, validate_every=250, checkpoint_every=250)
    config.training.update(validate_examples=50, buckets=3)
    return config
