"""The rows of the downstream tasks: row -> what comes behind the config's first word, and which flags."""

from evidence_rows import ABLATIONS, DOTS, OF_SAMPLER

from memjax.memories import registry

NO_REHEARSAL = (ABLATIONS["no rehearsal"],)
# The most telling rows first.
MEMORIES = ["rehearsal", *(name for name in registry if name != "rehearsal")]
OF_MEMORIES = {
    name + kind: (f"memory={name}", flags)
    for name in MEMORIES
    for kind, flags in ((" no rehearsal", NO_REHEARSAL), ("", ()))
}
# SASRec learns the next click at every place, whatever is asked.
AS_SASREC = (
    "--config.training.steps=6000",
    "--config.training.checkpoint_every=500",
    "--config.optimizer.decay_steps=1000",
)
NEXT_ALONE = ("--config.task.ahead=1", *AS_SASREC)
# 254 passes over all users' last 200 clicks, in place of 64; gSASRec's authors trained SASRec for 1,007.
LONG_SASREC = (
    "--config.task.ahead=1",
    "--config.task.length=200",
    "--config.training.batch_size=128",
    "--config.training.steps=12000",
    "--config.training.checkpoint_every=250",
    "--config.optimizer.decay_steps=2000",
)
# DIEN follows all clicks again for each question: 2,000 questions about the longest stream would be two million steps.
# Like SASRec it learns the next click at every place, by its auxiliary loss.
ASKED_ONCE = ("--config.task.ahead=1", "--config.training.microbatches=8")
RECOMMENDATION = {
    "gru4rec": ("system=gru4rec", ()),
    "sasrec": ("system=sasrec", NEXT_ALONE),
    "sasrec 254 passes": ("system=sasrec", LONG_SASREC),
    # As wide, and with as much dropout, as theirs.
    "sasrec 128 wide 254 passes": (
        "system=sasrec",
        (*LONG_SASREC, "--config.model.width=128", "--config.model.dropout=0.5"),
    ),
    "gru4rec next item alone": ("system=gru4rec", NEXT_ALONE),
    # Each user's stream, and the negatives that are asked of it, are the same in every pass.
    "gru4rec next item alone one view": ("system=gru4rec", (*NEXT_ALONE, "--config.task.views=1")),
    "gru4rec as long": ("system=gru4rec", AS_SASREC),
    **{
        f"{name} no rehearsal as long": (f"memory={name}", (*AS_SASREC, *NO_REHEARSAL))
        for name in ("mimn", "rehearsal")
    },
    **OF_MEMORIES,
    **{name: (f"system={name}", ()) for name in ("caser", "rum", "rum_features")},
    "dien": ("system=dien", ASKED_ONCE),
    "kept 20 segments": ("memory=rehearsal", ("--config.memory.time_constant=20.0",)),
}
BY_DOTS = {
    f"dot products{kind}": ("memory=rehearsal", (DOTS, *flags))
    for kind, flags in ((" no rehearsal", NO_REHEARSAL), ("", ()))
}
# Rehearsal Memory's Tables 5 and 6, and Figure 2.
OF_REHEARSAL = {
    **{row: ("memory=rehearsal", (flag,)) for row, flag in ABLATIONS.items() if row != "no rehearsal"},
    "15% masked": ("memory=rehearsal", ("--config.rehearsal.mask_ratio=0.15",)),
    "gru encoder": ("memory=rehearsal", ("--config.memory.encoder=gru",)),
    **{f"{slots} slots": ("memory=rehearsal", (f"--config.memory.slots={slots}",)) for slots in (10, 15, 25)},
}
# Figure 2 has the number of slots of two other memories, too.
OF_OTHERS = {
    f"{name} {slots} slots": (f"memory={name}", (f"--config.memory.slots={slots}",))
    for name in ("stm", "compressive")
    for slots in (10, 15, 25)
}
# By validation GRU4REC still gains where the memories begin to overfit.
LONGER = ("--config.training.steps=1000",)
KEPT_100 = ("--config.memory.time_constant=100.0",)
LEARNERS = {
    "gru4rec": ("system=gru4rec", LONGER),
    **OF_MEMORIES,
    **OF_REHEARSAL,
    "gru4rec stepwise": ("system=gru4rec,segment=1", LONGER),
    **{f"{name} stepwise": (f"memory={name},segment=1", ()) for name in MEMORIES},
    # Over streams of up to 3,060 writes NTM's gradient was not finite at step 372 of 400.
    "ntm stepwise": ("memory=ntm,segment=1", ("--config.training.steps=300",)),
    # Streams have 28 segments in the mean, and 153 at most.
    "kept 100 segments": ("memory=rehearsal", KEPT_100),
    "kept 100 segments no rehearsal": ("memory=rehearsal", (*KEPT_100, *NO_REHEARSAL)),
}
# The field's mean is over all folds; the first is every row's own.
FOLDED = ("gru4rec", "rehearsal no rehearsal", "ntm no rehearsal")
LEARNERS |= {
    f"{row} fold {fold}": (f"{LEARNERS[row][0]},fold={fold}", LEARNERS[row][1])
    for row in FOLDED
    for fold in range(2, 6)
}
OF_GRU = {"Directly Reason": ("system=directly", ()), "Multi-Hop Reason": ("system=multi_hop", ())}
# Questions and candidates as small as embedded, as the first rows were trained.
SMALL_QUESTIONS = ("--config.model.query_scale=1.0",)
KEPT_1 = ("--config.memory.time_constant=1.0", *SMALL_QUESTIONS)
STORIES = {
    "AS Reader": ("system=as_reader", ()),
    "E2E-MN": ("system=e2e_mn", ()),
    **OF_MEMORIES,
    **OF_GRU,
    **OF_REHEARSAL,
    **OF_OTHERS,
    **BY_DOTS,
    "own words": ("memory=rehearsal", ("--config.model.words=own",)),
    # A story has 207 segments in the mean; where half of a slot is gone after each, all slots become the same.
    "kept 1 segment": ("memory=rehearsal", KEPT_1),
    "kept 1 segment no rehearsal": ("memory=rehearsal", (*KEPT_1, *NO_REHEARSAL)),
    "rehearsal questions as embedded": ("memory=rehearsal", SMALL_QUESTIONS),
    **{
        f"{name} questions as embedded no rehearsal": (f"memory={name}", (*SMALL_QUESTIONS, *NO_REHEARSAL))
        for name in ("rehearsal", "memn2n", "surprise", "compressive")
    },
    "memn2n items of unit size no rehearsal": (
        "memory=memn2n",
        ("--config.model.item_scale=8.0", *SMALL_QUESTIONS, *NO_REHEARSAL),
    ),
    **{f"segments of {words}": ("memory=rehearsal", (f"--config.task.words={words}",)) for words in (10, 15, 30, 40)},
}
DIALOGUE = {
    "Multi-Stream": ("system=multi_stream", ()),
    "MSAN": ("system=msan", ()),
    **OF_MEMORIES,
    "rehearsal questions as embedded no rehearsal": ("memory=rehearsal", (*SMALL_QUESTIONS, *NO_REHEARSAL)),
    "rehearsal questions as embedded": ("memory=rehearsal", SMALL_QUESTIONS),
    "dnc questions as embedded no rehearsal": ("memory=dnc", (*SMALL_QUESTIONS, *NO_REHEARSAL)),
    **BY_DOTS,
    "E2E-MN": ("system=e2e_mn", ()),
    **OF_GRU,
}
BY_MASS, TRANSFORMER = ("--config.memory.normalize=mass",), ("--config.memory.encoder=transformer",)
LEARNED = (OF_SAMPLER, "--config.training.sampler_steps=2000")
# How films are asked, what is written of frames that are much alike, and how they are read before; each with and
# without rehearsal.
OF_FRAMES = {
    "dot products": (DOTS,),
    "questions of unit size": ("--config.model.query_scale=8.0",),
    "by mass": BY_MASS,
    "over items": ("--config.memory.normalize=items",),
    "learned embeddings": LEARNED,
    "learned embeddings by mass": (*LEARNED, *BY_MASS),
    "transformer": TRANSFORMER,
    "transformer learned embeddings": (*LEARNED, *TRANSFORMER),
    "transformer learned embeddings by mass": (*LEARNED, *TRANSFORMER, *BY_MASS),
}
VIDEO = {
    "E-SA": ("system=e_sa", ()),
    **OF_MEMORIES,
    "E-VQA": ("system=e_vqa", ()),
    "E-MN": ("system=e_mn", ()),
    "HCRN": ("system=hcrn", ()),
    **OF_GRU,
    **{row: how for row, how in OF_REHEARSAL.items() if row != "gru encoder"},  # which is the config's own
    **OF_OTHERS,
    **{f"segments of {frames}": ("memory=rehearsal", (f"--config.task.segment={frames}",)) for frames in (10, 15, 30)},
    **{
        row + kind: ("memory=rehearsal", (*how, *more))
        for row, how in OF_FRAMES.items()
        for kind, more in ((" no rehearsal", NO_REHEARSAL), ("", ()))
    },
}
# LEMN, Table 3, and what it leaves out: rules, and the bound of BiDAF that sees everything.
SPANS = {
    "fifo": ("policy=fifo", ()),
    "st": ("policy=st", ()),
    "s": ("policy=s", ()),
    "im": ("policy=im", ()),
    "lifo": ("policy=lifo", ()),
    "uniform": ("policy=uniform", ()),
    "BiDAF whole": ("system=whole", ()),
    **{f"{policy} held": (f"policy={policy},reward=held", ()) for policy in ("st", "s", "im")},
}
