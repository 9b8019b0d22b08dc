"""Writes the pictures of README and of the memories: `python docs/pictures/draw.py`."""

from pathlib import Path

import draw_layers
from svg import Picture


def logo() -> Picture:
    picture = Picture(150, 40, "memjax")
    for number, kind in enumerate(("item", "item", "state", "slot")):
        picture.box(4 + 13 * number, 10, 11, 20, "", kind)
    picture.text(62, 20, "memjax", 22, "start")
    return picture


def overview() -> Picture:
    """What every memory does."""
    picture = Picture(760, 250, "A stream is encoded, written into a state of fixed size, and asked later")
    for number in range(4):
        y = 30 + 46 * number
        picture.box(15, y, 104, 34, ("segment 1", "segment 2", "...", "segment T")[number], "item")
        picture.arrow(119, y + 17, 160, y + 17)
        picture.box(160, y, 70, 34, "encode")
        picture.arrow(230, y + 17, 300, 110)
    picture.box(302, 74, 90, 72, "write\none after\nanother")
    picture.arrow(392, 110, 432, 110)
    picture.box(434, 74, 92, 72, "state\nfixed size", "state")
    picture.arrow(480, 74, 480, 40, 347, 40, 347, 73, text="the next segment", at=(413, 30))
    picture.arrow(526, 110, 566, 110, text="show", at=(546, 98))
    picture.rows(568, 60, 62, 25, ["slot 1", "slot 2", "...", "slot K"])
    picture.arrow(630, 110, 664, 110)
    picture.box(666, 84, 80, 52, "answer")
    picture.box(650, 186, 96, 34, "question", "question")
    picture.arrow(706, 186, 706, 137)
    picture.text(15, 232, "the stream: read once, then gone", 11, "start")
    picture.arrow(599, 160, 599, 203, 536, 203, dashed=True)
    picture.box(380, 178, 154, 50, "rehearse, in training:\ncomplete a fragment", "question")
    return picture


def slots_written(update: str, title: str) -> Picture:
    """Rehearsal and Continual Memory."""
    picture = Picture(760, 180, title)
    picture.rows(15, 30, 80, 28, ["item 1", "...", "item N"], "item")
    picture.arrow(95, 72, 123, 72)
    picture.box(125, 38, 96, 68, "transformer\nover the\nsegment")
    picture.arrow(221, 72, 261, 72)
    picture.box(263, 38, 128, 68, "each item is\nshared out\nover the slots")
    picture.arrow(391, 72, 431, 72, text="K sums", at=(411, 60))
    picture.box(433, 38, 110, 68, update)
    picture.arrow(543, 72, 583, 72)
    picture.rows(585, 30, 74, 28, ["slot 1", "...", "slot K"], "slot")
    picture.arrow(
        622, 114, 622, 150, 327, 150, 327, 107, text="the slots so far: which are alike, what they keep", at=(404, 162)
    )
    picture.arrow(488, 150, 488, 107)
    picture.arrow(659, 72, 700, 72)
    picture.text(728, 72, "reader")
    return picture


def surprise() -> Picture:
    picture = Picture(760, 190, "The memory is a matrix that learns by gradient descent while it reads")
    picture.box(15, 56, 70, 44, "item x", "item")
    picture.arrow(85, 78, 118, 78)
    picture.rows(120, 40, 92, 26, ["key k", "value v", "gates"], "step")
    picture.arrow(212, 78, 250, 78)
    picture.box(252, 46, 126, 64, "surprise:\ngradient of\n|k M - v|² / 2")
    picture.arrow(378, 78, 410, 78)
    picture.box(412, 52, 100, 52, "momentum S", "state")
    picture.arrow(512, 78, 544, 78)
    picture.box(546, 46, 90, 64, "matrix M\nper head", "state")
    picture.arrow(
        591, 110, 591, 158, 315, 158, 315, 111, text="M before this item; it forgets a little each time", at=(452, 146)
    )
    picture.arrow(636, 78, 668, 78, text="", at=None)
    picture.rows(670, 38, 76, 27, ["slot 1", "...", "slot K"], "slot")
    picture.text(708, 134, "K learned probes\nread M", 11)
    return picture


def controlled(title: str, interface: str, rows: str, extra: str) -> Picture:
    """The memories with an LSTM that controls heads."""
    picture = Picture(760, 200, title)
    picture.box(15, 62, 66, 44, "item", "item")
    picture.arrow(81, 84, 111, 84)
    picture.box(113, 54, 90, 60, "LSTM\ncontroller", "state")
    picture.arrow(203, 84, 233, 84)
    picture.box(235, 40, 150, 88, interface)
    picture.arrow(385, 66, 425, 66, text="write", at=(405, 56))
    picture.arrow(425, 104, 385, 104, text="read", at=(405, 116))
    picture.box(427, 40, 150, 88, rows, "state")
    picture.arrow(
        310, 128, 310, 166, 158, 166, 158, 115, text="what the heads read comes back with the next item", at=(300, 180)
    )
    picture.arrow(577, 84, 611, 84)
    picture.rows(613, 44, 70, 27, ["slot 1", "...", "slot K"], "slot")
    picture.text(502, 150, extra, 11)
    picture.text(648, 144, "a row each", 11)
    return picture


def stm() -> Picture:
    picture = Picture(760, 180, "Two memories: items, and what relates them")
    picture.box(15, 56, 66, 44, "item x", "item")
    picture.arrow(81, 78, 115, 78)
    picture.box(117, 48, 108, 60, "outer product\nf1(x) f2(x)ᵀ")
    picture.arrow(225, 78, 259, 78)
    picture.box(261, 44, 100, 68, "item memory\nd x d,\nwith gates", "state")
    picture.arrow(361, 78, 395, 78)
    picture.box(397, 44, 112, 68, "self-attention\nthat keeps\nouter products")
    picture.arrow(509, 78, 543, 78)
    picture.box(545, 44, 100, 68, "relations\nK x d x d,\nsummed up", "state")
    picture.arrow(595, 112, 595, 148, 453, 148, 453, 113, text="what the item recalls", at=(524, 160))
    picture.arrow(645, 78, 673, 78)
    picture.rows(675, 38, 70, 27, ["slot 1", "...", "slot K"], "slot")
    return picture


def periodic() -> Picture:
    picture = Picture(760, 200, "Layers of GRUs, the higher the slower")
    for number, (name, every) in enumerate((("1", "every item"), ("2", "every p-th"), ("3", "every p²-th"))):
        y = 138 - 54 * number
        picture.box(170, y, 250, 38, f"GRU {name}: {every}", "state")
        picture.arrow(420, y + 19, 598, y + 19, text="its state", at=(510, y + 9))
        picture.box(600, y, 90, 38, f"slot {name}", "slot")
        if number < 2:
            picture.arrow(295, y, 295, y - 15, text="every p-th output", at=(362, y - 8))
    picture.text(295, 14, "...")
    picture.box(15, 138, 90, 38, "item", "item")
    picture.arrow(105, 157, 169, 157)
    return picture


def induction() -> Picture:
    picture = Picture(760, 230, "Rows found by content, and a channel for each")
    picture.box(15, 62, 66, 44, "item", "item")
    picture.arrow(81, 84, 111, 84)
    picture.box(113, 54, 90, 60, "LSTM\ncontroller", "state")
    picture.arrow(203, 84, 233, 84)
    picture.box(235, 40, 150, 88, "each head:\nby content and by\nthe rows' keys")
    picture.arrow(385, 66, 425, 66, text="write", at=(405, 56))
    picture.arrow(425, 104, 385, 104, text="read", at=(405, 116))
    picture.box(427, 40, 130, 88, "K / 2 rows\nerase and add", "state")
    picture.arrow(492, 128, 492, 156, text="the row read most", at=(550, 142))
    picture.box(427, 158, 130, 56, "K / 2 channels\nof one GRU", "state")
    picture.arrow(48, 106, 48, 196, 426, 196, text="the item", at=(236, 186))
    picture.arrow(310, 128, 310, 152, 158, 152, 158, 115, text="what was read", at=(236, 164))
    picture.arrow(557, 84, 611, 84)
    picture.arrow(557, 186, 611, 186)
    picture.rows(613, 44, 80, 27, ["slot 1", "...", "slot K / 2"], "slot")
    picture.rows(613, 146, 80, 27, ["...", "...", "slot K"], "slot")
    return picture


def compressive() -> Picture:
    picture = Picture(760, 190, "Recent segments as they were, older ones compressed")
    picture.box(15, 60, 96, 48, "segment\nof N items", "item")
    picture.arrow(111, 84, 143, 84)
    picture.box(145, 50, 126, 68, "layers attend to\ncompressed, recent\nand themselves")
    picture.arrow(271, 84, 303, 84)
    picture.box(305, 54, 110, 60, "recent FIFO\nR N rows", "state")
    picture.arrow(415, 84, 447, 84)
    picture.box(449, 54, 92, 60, "rate rows\nbecome one")
    picture.arrow(541, 84, 573, 84)
    picture.box(575, 54, 92, 60, "compressed\nFIFO, K rows", "state")
    picture.arrow(667, 84, 690, 84)
    picture.text(722, 84, "K slots")
    picture.arrow(360, 114, 360, 150, 230, 150, 230, 119)
    picture.arrow(
        620, 114, 620, 166, 190, 166, 190, 119, text="context of the next segment, for every layer", at=(490, 154)
    )
    return picture


def rows_kept(title: str, policy: str, note: str) -> Picture:
    """MemN2N's rows, and those that a policy evicts from."""
    picture = Picture(760, 180, title)
    picture.rows(15, 36, 80, 28, ["item 1", "...", "item N"], "item")
    picture.arrow(95, 78, 131, 78)
    picture.box(133, 48, 130, 60, "sum of the items,\nby their places")
    picture.arrow(263, 78, 297, 78)
    picture.box(299, 56, 80, 44, "new row", "item")
    picture.arrow(379, 78, 413, 78)
    picture.box(415, 44, 116, 68, policy)
    picture.arrow(531, 78, 565, 78)
    picture.rows(567, 36, 110, 28, ["oldest row", "...", "newest row"], "slot")
    picture.text(622, 134, "slot = row + T(age)", 11)
    picture.arrow(473, 112, 473, 146)
    picture.text(473, 158, note, 11)
    return picture


PICTURES = {
    "logo": logo,
    "overview": overview,
    "rehearsal": lambda: slots_written("a GRU updates\nevery slot", "Items choose slots, a GRU updates them"),
    "continual": lambda: slots_written("Z small GRUs\nbetween\nprojections", "Items choose slots, Z GRUs update each"),
    "surprise": surprise,
    "ntm": lambda: controlled(
        "Neural Turing Machine",
        "each head:\nby content,\nthen gate,\nshift, sharpen",
        "K rows\nerase and add",
        "a head goes on from where it was",
    ),
    "dnc": lambda: controlled(
        "Differentiable Neural Computer",
        "write: by content or\nwhere there is room;\nread: by content, or\nbefore / after in time",
        "K rows, their usage,\nK x K links:\nthe order of writing",
        "usage falls when a head frees a row",
    ),
    "nutm": lambda: controlled(
        "Neural Stored-program Memory",
        "interface put together\nfrom stored programs,\nchosen by their keys;\nthen as a DNC",
        "K rows, their usage,\nK x K links",
        "programs are learned, not written",
    ),
    "dmsdnc": lambda: controlled(
        "Distributed associative memory",
        "an interface for\neach block;\nreads are mixed by a\nsoftmax over blocks",
        "B blocks of\nK / B rows,\nno links",
        "refreshing loss: say the item again",
    ),
    "hpmn": periodic,
    "mimn": induction,
    "stm": stm,
    "compressive": compressive,
    "memn2n": lambda: rows_kept("The last K segments, a row each", "first in,\nfirst out", "the oldest row is dropped"),
    "retention": lambda: rows_kept(
        "K segments, a row each; a policy evicts", "policy:\nwhich of K + 1\nis evicted?", "an old row, or the new one"
    ),
    **draw_layers.PICTURES,
}


def main() -> None:
    for name, make in PICTURES.items():
        (Path(__file__).parent / f"{name}.svg").write_text(make().svg())


if __name__ == "__main__":
    main()
