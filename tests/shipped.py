"""Every shipped config, tiny, as a mapping, and the data of those that read files, in their published layouts."""

import functools

from experiments.test_babilong_runs import OURS, TASK
from experiments.test_shown_slots import FILMS
from tasks import test_babilong, test_clicks, test_file_task, test_learners, test_spans, test_stories
from tasks.test_builders import tar
from training import test_fixed_words
from training.test_agent_runs import SIZES as MAZE
from training.test_bits_runs import SIZES as BITS
from training.test_retention_runs import SIZES as RETENTION
from training.test_sequence_runs import LANGUAGE, NEEDLE, RECALL
from training.test_sequence_runs import SIZES as SEQUENCES
from training.test_spans_runs import SIZES as SPANS
from training.tiny import TINY, mapping

from memjax import memories

ENCODED = {"memory.layers": 1, "memory.heads": 2}
CONTROLLED = {"memory.slots": 4, "memory.memory_width": 3, "memory.hidden": 4}
OWN = {
    **dict.fromkeys(["rehearsal", "continual", "surprise"], ENCODED),
    **dict.fromkeys(["dmsdnc", "dnc", "mimn", "ntm", "nutm"], CONTROLLED),
    "compressive": ENCODED | {"memory.slots": 8},
}
SHARED = {path: value for path, value in TINY.items() if path not in ENCODED}
SMALL = {path: value for path, value in TINY.items() if not path.startswith("task.")} | {"memory.slots": 4}
WHOLE = {path: value for path, value in SPANS.items() if path not in ("model.entries", "training.base_steps")}
MIMN = {path: value for path, value in SMALL.items() if path not in ("memory.layers", "memory.heads")}
MQAR = {
    "task.cells": "16x2", "task.rows": "40", "task.test_cells": "16x2,32x4", "task.vocabulary": 32, "task.valid": 8,
    "task.test": 4,
}  # fmt: skip


@functools.cache
def bases(folder):
    """Every shipped config, tiny, as a mapping; its data lies in the folder."""
    (folder / "text.txt").write_text("a line of a text\n" * 60)
    found = {name: mapping(f"demo,memory={name}", sizes=SHARED | OWN.get(name, {})) for name in memories.registry}
    found |= {arg: mapping(f"demo,{arg}") for arg in ("system=directly", "system=multi_hop,discrete=1")}
    found |= {layer: mapping(layer, "recall", RECALL) for layer in ("attention", "lmm", "mac", "mag", "mal")}
    found["needle"] = mapping("mag", "needle", NEEDLE)
    for arg, more in (("ptb", {}), ("characters", {}), ("ptb,layer=memn2n", {"model.heads": 1, "model.hidden": 0})):
        found[arg] = mapping(arg, "language", LANGUAGE | more, task__data_dir=str(folder))
    for arg in ("copy", "repeat_copy", "associative_recall,cell=dnc", "copy,cell=nutm"):
        found[f"bits {arg}"] = mapping(arg, "algorithmic", BITS | {"task.shortest": 2})
    found |= {base: mapping(f"imaze,base={base}", "maze", MAZE) for base in ("mqn", "frmqn")}
    found |= {kind: mapping(kind, "retention", RETENTION) for kind in ("noisy", "large,policy=im")}
    write_data(folder)
    found |= dict(downstream(folder))
    return found | {"babi": mapping("rehearsal,task=1", "babi", {"training.batch_size": 8}, task__data_dir=str(folder))}


def write_data(folder):
    """A file or a folder for each of the downstream tasks, and for BABILong."""
    tar(folder / "stories.tar.gz", many(test_stories.files()))
    tar(folder / "tales.tar.gz", many(test_spans.members()))
    test_fixed_words.write_dream(folder)
    test_clicks.written(folder, test_clicks.made())
    test_learners.write_folds(folder)
    for kind in ("ids", "vectors"):
        (folder / kind).mkdir()
        test_file_task.folder_of(folder / kind, kind)
    test_babilong.write_data(folder)


def many(members, stories=8):
    """The same story under several names in train, so that it has a batch."""
    train = {name: text for name, text in members.items() if "train" in name}
    return members | {name.replace("fox", f"fox{i}"): text for i in range(stories) for name, text in train.items()}


def downstream(folder):
    """(name, config) of the downstream tasks and BABILong, with memories and with what reads the stream itself."""
    text = test_fixed_words.SIZES | {"task.least": 1}
    log = {"task.file": "log.txt.gz", "task.length": 12, "task.segment": 4, "task.least": 4}
    learners = SMALL | {"task.length": 20, "task.segment": 4}
    files = SMALL | {"task.length": 8, "task.segment": 4}
    found = {
        "stories": ("fairytales", "stories", text | {"task.file": "stories.tar.gz"}),
        "stories as_reader": ("fairytales,system=as_reader", "stories", text | {"task.file": "stories.tar.gz"}),
        "dialogues": ("dream", "dialogues", text),
        "dialogues msan": ("dream,system=msan", "dialogues", text),
        "spans": ("fairytales,policy=st", "spans", SPANS),
        "spans whole": ("fairytales,system=whole", "spans", WHOLE),
        "video": ("shapes", "video", FILMS),
        "video hcrn": ("shapes,system=hcrn", "video", FILMS),
        "clicks": ("ml1m", "clicks", SMALL | log),
        "clicks mimn": ("ml1m,memory=mimn", "clicks", MIMN | log),
        "clicks sasrec": ("ml1m,system=sasrec", "clicks", SMALL | log),
        "learners": ("assist2017", "learners", learners),
        "learners dien": ("assist2017,system=dien", "learners", learners),
        "files ids": ("", "files", files),
        "files vectors": ("", "files", files),
        "mqar": ("64x4", "mqar", SEQUENCES | MQAR),
        "babilong mac": ("mac", "babilong", SEQUENCES | TASK),
        "babilong rehearsal": ("rehearsal", "babilong", OURS | TASK),
    }
    for name, (arg, file, sizes) in found.items():
        where = folder / name.split()[1] if file == "files" else folder
        yield name, mapping(arg, file, sizes | ({} if file in ("video", "mqar") else {"task.data_dir": str(where)}))
