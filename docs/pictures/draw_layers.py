"""The pictures of Titans' layers: which way a token takes through attention and memory."""

from svg import Picture


def lmm() -> Picture:
    picture = Picture(760, 200, "LMM: a memory for each head, written and read by every token")
    starts = picture.chain(15, 66, 52, [("token x", "item", 64), ("q, k, v, gates\nconvolution\nover 4", "step", 96)])
    picture.arrow(starts[1] + 96, 92, 247, 92, text="k, v", at=(226, 80))
    picture.box(249, 52, 150, 80, "memory M of a head\nwritten by the\ngradient at M", "state")
    picture.arrow(399, 92, 431, 92, text="")
    picture.box(433, 66, 84, 52, "read:\nM(q)")
    picture.arrow(151, 118, 151, 168, 475, 168, 475, 119, text="q, after the write", at=(320, 158))
    picture.arrow(517, 92, 547, 92)
    picture.box(549, 66, 84, 52, "norm, times\nsilu(x W_g)")
    picture.arrow(633, 92, 663, 92)
    picture.box(665, 66, 80, 52, "out W_o", "slot")
    return picture


def mac() -> Picture:
    picture = Picture(760, 230, "MAC: a segment asks the memory before it, attends, and is written")
    picture.box(15, 88, 84, 52, "segment x", "item")
    picture.box(149, 24, 130, 52, "memory as it was\nbefore the segment", "state")
    picture.arrow(57, 88, 57, 50, 147, 50, text="x W_q", at=(98, 40))
    picture.arrow(279, 50, 339, 50, 339, 86, text="h", at=(309, 40))
    picture.box(279, 88, 150, 52, "attention over\n[persistent | h | x]")
    picture.arrow(99, 114, 277, 114)
    picture.arrow(429, 114, 467, 114)
    picture.box(469, 94, 50, 40, "+ x")
    picture.arrow(57, 140, 57, 186, 494, 186, 494, 136)
    picture.arrow(519, 114, 559, 114, text="y", at=(538, 104))
    picture.box(561, 74, 100, 80, "LMM:\nwrites y,\nreads M(y)", "state")
    picture.arrow(661, 114, 691, 114)
    picture.box(693, 94, 52, 40, "out", "slot")
    picture.text(275, 212, "token t sees h and x up to t, and all persistent tokens", 11)
    return picture


def mag() -> Picture:
    picture = Picture(760, 190, "MAG: attention and memory side by side, one gates the other")
    picture.box(15, 68, 100, 52, "persistent\ntokens, x", "item")
    picture.arrow(115, 84, 165, 84, 165, 46, 205, 46)
    picture.arrow(115, 104, 165, 104, 165, 142, 205, 142)
    picture.box(207, 20, 150, 52, "attention over\na sliding window")
    picture.box(207, 116, 150, 52, "LMM", "state")
    picture.arrow(357, 46, 397, 46)
    picture.arrow(357, 142, 397, 142)
    picture.box(399, 26, 90, 40, "norm")
    picture.box(399, 122, 90, 40, "norm, silu")
    picture.arrow(489, 46, 575, 46, 575, 72)
    picture.arrow(489, 142, 575, 142, 575, 116)
    picture.box(540, 74, 70, 40, "times")
    picture.arrow(610, 94, 650, 94)
    picture.box(652, 74, 60, 40, "out", "slot")
    return picture


def mal() -> Picture:
    picture = Picture(760, 170, "MAL: the memory's output goes to attention")
    picture.box(15, 60, 100, 52, "persistent\ntokens, x", "item")
    picture.arrow(115, 86, 155, 86)
    picture.box(157, 60, 90, 52, "LMM", "state")
    picture.arrow(247, 86, 297, 86, text="m", at=(272, 76))
    picture.box(299, 60, 110, 52, "norm(x + m)")
    picture.arrow(65, 60, 65, 24, 354, 24, 354, 58, text="x", at=(210, 14))
    picture.arrow(409, 86, 449, 86)
    picture.box(451, 60, 130, 52, "attention over\na sliding window")
    picture.arrow(581, 86, 621, 86)
    picture.box(623, 66, 50, 40, "+ m")
    picture.arrow(202, 112, 202, 150, 648, 150, 648, 108)
    picture.arrow(673, 86, 703, 86)
    picture.box(705, 66, 44, 40, "out", "slot")
    return picture


PICTURES = {"lmm": lmm, "mac": mac, "mag": mag, "mal": mal}
