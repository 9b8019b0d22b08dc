"""The rows of the tables of evidence: what each adds to the command `--config=configs/evidence.py:SIZE`.

`VARIANTS` says what comes behind SIZE, the tables which flags come after that.
"""

from collections.abc import Mapping

from memjax.memories import registry

BASELINES = [name for name in registry if name not in ("continual", "rehearsal")]
BOUNDED = "surprise whole tokens bounded"
ABLATIONS = {
    "no rehearsal": "--config.rehearsal.fragments=0",
    "recollection only": "--config.rehearsal.familiarity=0",
    "familiarity only": "--config.rehearsal.recollection=0",
    "random sampler": "--config.rehearsal.sampler=random",
}


def with_and_without(rows: Mapping[str, str]) -> dict[str, str]:
    """Each row, and behind it the same without rehearsal."""
    return {
        row + kind: f"{flags} {more}".strip()
        for row, flags in rows.items()
        for kind, more in (("", ""), (" no rehearsal", ABLATIONS["no rehearsal"]))
    }


EXTENSIONS = {
    "no context": "--config.memory.context=0",
    "additive scores": "--config.memory.scores=additive",
    "dot scores": "--config.memory.scores=dot",
    "items as embedded": "--config.model.item_scale=1 --config.memory.position_std=0.02",
}
ANNEALED = "--config.rehearsal.anneal_steps=4000"
BALANCED = "--config.rehearsal.balance=1"
# What the trials of docs/slots.md change in `rehearsal` at size `small`, one setting each, but two of one row;
# of equal bytes the last two.
TRIALS = {
    "scores three times as large": "--config.memory.score_gain=3",
    "scores a third as large": "--config.memory.score_gain=0.333",
    "4 write heads": "--config.memory.write_heads=4",
    "tied rehearser": "--config.rehearsal.tied=True",
    "familiarity weight 1": "--config.rehearsal.familiarity=1",
    "dot scores familiarity weight 1": "--config.memory.scores=dot --config.rehearsal.familiarity=1",
    "recollection weight 2": "--config.rehearsal.recollection=2",
    "answers weight half": "--config.rehearsal.answer=0.5",
    "rehearsal first": "--config.rehearsal.answer_after=1000",
    "annealed": ANNEALED,
    "balanced": BALANCED,
    "10 slots of 128": "--config.memory.slots=10 --config.model.width=128 --config.model.item_scale=11.314",
    "40 slots of 32": "--config.memory.slots=40 --config.model.width=32 --config.model.item_scale=5.657",
}
# Slots are chosen by dot products, by items and by questions.
DOTS = "--config.memory.scores=dot --config.model.read_scores=dot"
CURRICULUM = "--config.task.train=960 --config.task.curriculum=96000"  # 6,000 steps of 32, half of them growing
RANDOM = "--config.model.embeddings=random"  # to begin with; at `medium` and `paper` they are the history sampler's
OF_SAMPLER = "--config.model.embeddings=sampler"
AS_LONG = "--config.training.steps=6000 --config.optimizer.decay_steps=1000"  # as rehearsal and continual
SMALL = {
    "rehearsal": "",
    **with_and_without({"continual": "", **dict.fromkeys(BASELINES, AS_LONG)}),
    "dnc annealed": f"{AS_LONG} {ANNEALED}",
    "dnc balanced": f"{AS_LONG} {BALANCED}",
    **with_and_without({"dot products": DOTS}),
    "learned embeddings": OF_SAMPLER,
    "learned embeddings curriculum": f"{OF_SAMPLER} {CURRICULUM} --config.task.shortest=10 --config.training.buckets=5",
    **ABLATIONS,
    **EXTENSIONS,
    **TRIALS,
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
    "familiarity weight 1": TRIALS["familiarity weight 1"],
    "15% masked": "--config.rehearsal.mask_ratio=0.15",
    "gru encoder": "--config.memory.encoder=gru",
    "continual single head": "--config.memory.update_heads=1",
    **with_and_without(
        {
            **dict.fromkeys(BASELINES, ""),
            "curriculum": CURRICULUM,
            "4 slots": "--config.memory.slots=4",
            "1 slot": "--config.memory.slots=1 --config.memory.scores=additive",  # scores of both kinds need four
        }
    ),
    **{f"random embeddings {row}": f"{RANDOM} {flags}" for row, flags in ABLATIONS.items()},
    "random embeddings no rehearsal curriculum": f"{RANDOM} {ABLATIONS['no rehearsal']} {CURRICULUM}",
    "random embeddings curriculum": f"{RANDOM} {CURRICULUM}",
    **{f"random embeddings {row}": RANDOM for row in ("rehearsal", "continual", "surprise")},
}
HALF_OF_STEPS = "--config.training.steps=7500 --config.optimizer.decay_steps=1500"
# Before streams grew and embeddings were learned.
AS_BEFORE = (
    f"{HALF_OF_STEPS} --config.training.sampler_steps=2000 {RANDOM} --config.task.train=400 --config.task.curriculum=0"
)
FULL_LENGTH = "--config.task.shortest=0 --config.training.buckets=1 --config.memory.time_constant=1"
SECOND_PASS = "--config.task.train=540"  # of 15,000 steps the last third reads streams a second time, which grow again
PAPER = {
    "rehearsal": "",
    "no rehearsal": ABLATIONS["no rehearsal"],
    **with_and_without({"discrete": ""}),
    **dict.fromkeys(("continual", "surprise", "stm", "dnc"), ""),
    **with_and_without(
        {
            "slow curriculum": SECOND_PASS,
            "curriculum": f"{SECOND_PASS} {HALF_OF_STEPS} --config.task.curriculum=240000",
            "learned embeddings": f"{SECOND_PASS} {HALF_OF_STEPS} --config.task.curriculum=0",
            "short streams too": AS_BEFORE,
            "one pass": f"{AS_BEFORE} {FULL_LENGTH}",
        }
    ),
}
VARIANTS = {
    **{name + kind: f",memory={name}" for name in (*BASELINES, "continual") for kind in ("", " no rehearsal")},
    **{BOUNDED + kind: ",memory=surprise" for kind in ("", " no rehearsal")},
    "continual single head": ",memory=continual",
    **dict.fromkeys(("dnc annealed", "dnc balanced"), ",memory=dnc"),
    **{f"random embeddings {name}": f",memory={name}" for name in ("continual", "surprise")},
    "continual as printed": ",memory=continual,printed=1",
    **{f"{row} as printed": ",printed=1" for row in ("rehearsal", *ABLATIONS)},
    **{f"discrete{kind}": ",discrete=1" for kind in ("", " no rehearsal")},
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
