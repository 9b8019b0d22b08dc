"""The rows of the tables of evidence: what each adds to the command `--config=configs/evidence.py:SIZE`.

`VARIANTS` says what comes behind SIZE, the tables which flags come after that.
"""

from memjax.memories import registry

BASELINES = [name for name in registry if name not in ("continual", "rehearsal")]
ABLATIONS = {
    "no rehearsal": "--config.rehearsal.fragments=0",
    "recollection only": "--config.rehearsal.familiarity=0",
    "familiarity only": "--config.rehearsal.recollection=0",
    "random sampler": "--config.rehearsal.sampler=random",
}
EXTENSIONS = {
    "no context": "--config.memory.context=0",
    "additive scores": "--config.memory.scores=additive",
    "dot scores": "--config.memory.scores=dot",
    "items as embedded": "--config.model.item_scale=1 --config.memory.position_std=0.02",
}
CURRICULUM = "--config.task.train=960 --config.task.curriculum=96000"  # 6,000 steps of 32, half of them growing
RANDOM = "--config.model.embeddings=random"  # to begin with; at `medium` they are the history sampler's
OF_SAMPLER = "--config.model.embeddings=sampler"
AS_LONG = "--config.training.steps=6000 --config.optimizer.decay_steps=1000"  # as rehearsal and continual
SMALL = {
    "rehearsal": "",
    "continual": "",
    "dnc": AS_LONG,
    "learned embeddings": OF_SAMPLER,
    "learned embeddings curriculum": f"{OF_SAMPLER} {CURRICULUM} --config.task.shortest=10 --config.training.buckets=5",
    **ABLATIONS,
    **EXTENSIONS,
    **{f"{row} as printed": flags for row, flags in {"rehearsal": "", "continual": "", **ABLATIONS}.items()},
    "Directly Reason": "",
    "Multi-Hop Reason": "",
}
MEDIUM = {
    "rehearsal": "",
    "no rehearsal": ABLATIONS["no rehearsal"],
    "dnc": "",
    "continual": "",
    **ABLATIONS,
    **EXTENSIONS,
    "15% masked": "--config.rehearsal.mask_ratio=0.15",
    "gru encoder": "--config.memory.encoder=gru",
    "continual single head": "--config.memory.update_heads=1",
    **{
        name + kind: flags
        for name in BASELINES
        for kind, flags in (("", ""), (" no rehearsal", ABLATIONS["no rehearsal"]))
    },
    **{
        row + kind: f"{flags} {more}".rstrip()
        for row, flags in {
            "curriculum": CURRICULUM,
            "4 slots": "--config.memory.slots=4",
            "1 slot": "--config.memory.slots=1 --config.memory.scores=additive",  # scores of both kinds need four
        }.items()
        for kind, more in (("", ""), (" no rehearsal", ABLATIONS["no rehearsal"]))
    },
    **{f"random embeddings {row}": f"{RANDOM} {flags}" for row, flags in ABLATIONS.items()},
    "random embeddings no rehearsal curriculum": f"{RANDOM} {ABLATIONS['no rehearsal']} {CURRICULUM}",
    "random embeddings curriculum": f"{RANDOM} {CURRICULUM}",
    **{f"random embeddings {row}": RANDOM for row in ("rehearsal", "continual", "surprise")},
}
# 7,500 steps of 64 are one pass over the 480,000 streams of train.
PASS = "--config.training.steps=7500 --config.optimizer.decay_steps=1500 --config.training.validate_examples=1000"
ONE_PASS = f"{PASS} --config.training.sampler_steps=2000"
SHORT_TOO = "--config.task.shortest=20 --config.training.buckets=5"
HELD = "--config.memory.time_constant=10"  # as at `medium`: with 1, half of a slot is gone after each of 20 segments
LEARNED = (
    f"{PASS} --config.training.sampler_steps=10000 {SHORT_TOO} {HELD} {OF_SAMPLER} "
    "--config.task.train=540"  # as many as the sampler reads
)
# Streams grow for 7,500 of 15,000 steps, and again from 10,125 on, where the second pass begins. Where they grew twice
# as fast, training with rehearsal fell apart.
SLOWLY = f"{LEARNED} --config.training.steps=15000 --config.optimizer.decay_steps=3000 --config.task.curriculum=480000"
PAPER = {
    "rehearsal": ONE_PASS,
    "no rehearsal": f"{ONE_PASS} {ABLATIONS['no rehearsal']}",
    "dnc": ONE_PASS,
    "short streams too": f"{ONE_PASS} {SHORT_TOO} {HELD}",
    "short streams too no rehearsal": f"{ONE_PASS} {SHORT_TOO} {HELD} {ABLATIONS['no rehearsal']}",
    "short streams too dnc": f"{ONE_PASS} {SHORT_TOO}",
    "learned embeddings": LEARNED,
    "learned embeddings no rehearsal": f"{LEARNED} {ABLATIONS['no rehearsal']}",
    "curriculum": f"{LEARNED} --config.task.curriculum=240000",
    "curriculum no rehearsal": f"{LEARNED} --config.task.curriculum=240000 {ABLATIONS['no rehearsal']}",
    "slow curriculum": SLOWLY,
    "slow curriculum no rehearsal": f"{SLOWLY} {ABLATIONS['no rehearsal']}",
}
VARIANTS = {
    **{name + kind: f",memory={name}" for name in BASELINES for kind in ("", " no rehearsal")},
    "continual": ",memory=continual",
    "continual single head": ",memory=continual",
    **{f"random embeddings {name}": f",memory={name}" for name in ("continual", "surprise")},
    "continual as printed": ",memory=continual,printed=1",
    **{f"{row} as printed": ",printed=1" for row in ("rehearsal", *ABLATIONS)},
    "short streams too dnc": ",memory=dnc",
    "Directly Reason": ",system=directly",
    "Multi-Hop Reason": ",system=multi_hop",
}
DEMO = {
    "rehearsal": "",
    "continual": "",
    "no rehearsal": ABLATIONS["no rehearsal"],
    "rehearsal as printed": "",
    "no rehearsal as printed": ABLATIONS["no rehearsal"],
    "surprise": "",
    "surprise no rehearsal": ABLATIONS["no rehearsal"],
    "Directly Reason": "",
    "Multi-Hop Reason": "",
}
