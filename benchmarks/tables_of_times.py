"""Tables of how long things take, in Markdown, from what the `bench_*.py` wrote."""

import math


def surprise(found: dict) -> list[str]:
    """How many times the time of the second contender the first one takes: gradient, forward."""
    ratios = {(row["ratio"], row["job"], row["L"]): row["median"] for row in found["ratios"]}
    lengths, names = found["sizes"]["lengths"], list(dict.fromkeys(name for name, _, _ in ratios))
    lines = [f"| gradient, forward | {' | '.join(f'L = {length:,}' for length in lengths)} |"]
    lines.append("|---" * (1 + len(lengths)) + "|")

    def cell(name: str, length: int) -> str:
        both = (ratios.get((name, job, length)) for job in ("gradient", "forward"))
        return ", ".join("-" if ratio is None else f"{ratio:.3g}" for ratio in both)

    return [*lines, *(f"| {name} | {' | '.join(cell(name, length) for length in lengths)} |" for name in names)]


def surprise_pace(found: dict) -> list[str]:
    """Tokens a second of each contender, and what share of the rate of a product of matrices: gradient, forward."""
    rows = {(row["contender"], row["job"], row["L"]): row for row in found["rows"]}
    lengths, names = found["sizes"]["lengths"], list(dict.fromkeys(name for name, _, _ in rows))
    lines = [f"| 1,000 tokens/s: gradient, forward | {' | '.join(f'L = {length:,}' for length in lengths)} |"]
    lines.append("|---" * (1 + len(lengths)) + "|")

    def cell(row: dict | None) -> str:
        if row is None:
            return "-"
        share = f" ({100 * row['matmul_share']:.0f}%)" if "matmul_share" in row else ""
        return f"{row['tokens_per_s'] / 1000:.3g}{share}"

    for name in names:
        cells = (
            ", ".join(cell(rows.get((name, job, length))) for job in ("gradient", "forward")) for length in lengths
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def shards(found: dict) -> list[str]:
    """How many times faster a stream is read in shards: by a share's time, and here, where shards wait for cores."""
    counts = found["sizes"]["shards"]
    lines = [f"| unsharded / share, unsharded / here | {' | '.join(f'{count} shards' for count in counts)} |"]
    lines.append("|---" * (1 + len(counts)) + "|")
    for one in found["results"]:
        ratios = ((row["unsharded/share"]["median"], row["unsharded/here"]["median"]) for row in one["rows"])
        cells = " | ".join(f"{share:.2f}, {here:.2f}" for share, here in ratios)
        lines.append(f"| {one['dk']} x {one['dv']}, {one['job']} | {cells} |")
    return lines


def memories_cost(found: dict) -> list[str]:
    """What a token costs in each memory."""
    lines = ["| memory | us per token, forward | with gradient | state KiB | parameters |", "|---|---|---|---|---|"]
    pace = {(row["memory"], row["job"]): row["us_per_token"] for row in found["rows"]}
    for row in found["rows"]:
        if row["job"] == "forward":
            cells = (
                f"{row['us_per_token']:.1f} | {pace[row['memory'], 'gradient']:.1f} | {row['state_bytes'] / 1024:.0f}"
            )
            lines.append(f"| {row['memory']} | {cells} | {row['parameters']:,} |")
    return lines


def race(found: dict) -> list[str]:
    """PyPI's DNC against ours, on one device and on one for each core."""
    (devices,) = {one["devices"] for one in found["dnc"].values()}
    lines = [
        f"| DNC | PyPI's time over ours | quartiles | sharded over {devices} cores | quartiles |",
        "|---|---|---|---|---|",
    ]
    for name, one in found["dnc"].items():
        sizes = one["sizes"]
        cells = [f"{name}: {sizes['rows']} rows of {sizes['memory_width']}, R = {sizes['heads']}"]
        for ratio in one["ratios"].values():
            cells += [f"{ratio['median']:.1f}", f"{ratio['q1']:.1f} to {ratio['q3']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def length(found: dict) -> list[str]:
    """What a token costs in a long sequence, against a short one."""
    short, long = found["lengths"]
    lines = [f"| | us per token, L = {short:,} | L = {long:,} | ratio | quartiles |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        ratio, pace = row["long/short"], row["us_per_token"]
        cells = f"{pace['short']:.1f} | {pace['long']:.1f} | {ratio['median']:.2f}"
        lines.append(f"| {row['layer']}, {row['job']} | {cells} | {ratio['q1']:.2f} to {ratio['q3']:.2f} |")
    return lines


def serving(found: dict) -> list[str]:
    """What one core serves of the states of many users."""
    rates = ("writes", "questions", "rankings")
    lines = [
        "| | bytes a user | clicks written/s | questions/s | all items ranked/s | questions, times the GRU's |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        cells = [f"{row[rate]['median']:,.0f}" if rate in row else "–" for rate in rates]
        share = f"{row['ratio']['median']:.1f} ({row['ratio']['q1']:.1f}-{row['ratio']['q3']:.1f})"
        lines.append(f"| {row['system']} | {row['bytes']:,} | {' | '.join(cells)} | {share} |")
    return lines


def asked(found: dict) -> list[str]:
    """What questions on the way cost."""
    lines = ["| | seconds | quartiles | MiB besides arguments |", "|---|---|---|---|"]
    for row in found["rows"]:
        seconds, mebibytes = row["seconds"], row.get("temp_bytes", math.nan) / 2**20
        quartiles = f"{seconds['q1']:.2f}-{seconds['q3']:.2f}"
        lines.append(f"| {row['what']} | {seconds['median']:.2f} | {quartiles} | {mebibytes:,.0f} |")
    return lines


def token_by_token(found: dict) -> list[str]:
    """Where a CPU reads token by token sooner than by chunks, nothing being derived."""
    lines = ["| numbers of a key | sequences | tokens | ms, by chunks | ms, token by token | ratio | quartiles |"]
    lines.append("|---" * 7 + "|")
    for row in found["rows"]:
        chunks, each = (1000 * row[impl]["median"] for impl in ("closed_form", "sequential"))
        ratio = row["closed_form/sequential"]
        cells = f"{row['keys']} | {row['sequences']} | {row['tokens']:,} | {chunks:.1f} | {each:.1f}"
        lines.append(f"| {cells} | {ratio['median']:.2f} | {ratio['q1']:.2f}-{ratio['q3']:.2f} |")
    return lines


def buckets(found: dict) -> list[str]:
    """What joint training gains by length buckets."""
    lines = [
        "| buckets | steps/s | quartiles | segments of a step, padded | lengths that were compiled |",
        "|---" * 5 + "|",
    ]
    for row in found["rows"]:
        rate, shapes = row["steps_per_second"], ", ".join(row["shares"])
        cells = f"{rate['median']:.2f} | {rate['q1']:.2f} to {rate['q3']:.2f} | {row['padded']:.1f} | {shapes}"
        lines.append(f"| {row['buckets'] if row['buckets'] > 1 else 'none'} | {cells} |")
    ratio = found["ratio"]
    spread = f"{ratio['q1']:.1f} to {ratio['q3']:.1f}"
    return [*lines, f"| ratio | {ratio['median']:.1f} | {spread} | | |"]


def weak(found: dict) -> list[str]:
    """What a step takes with more devices, and what each of them holds."""
    lines = ["| mesh | rows | state KiB on each device | ms a step | cores used | time / ideal | quartiles |"]
    lines.append("|---" * 7 + "|")
    for row in found["weak"]:
        ratio, held = row["time/ideal"], row["state_bytes_per_device"] / 1024
        milliseconds = 1e3 * row["seconds"]["median"]
        cells = f"{row['rows']} | {held:,.0f} | {milliseconds:.0f} | {row['cores']:.1f} | {ratio['median']:.2f}"
        lines.append(f"| {row['mesh']} | {cells} | {ratio['q1']:.2f} to {ratio['q3']:.2f} |")
    return lines


def flat(found: dict) -> list[str]:
    """What an answer takes, and the bytes of a state, by how much was written."""
    head = ["memory", "state KiB", *(f"us after {int(goal):,} items" for goal in found["flat"][0]["written"])]
    lines = [f"| {' | '.join([*head, 'last / first', 'quartiles'])} |", "|---" * (len(head) + 2) + "|"]
    for row in found["flat"]:
        facts = list(row["written"].values())
        ratio = facts[-1]["time/first"]
        held = sorted({f"{fact['state_bytes'] / 1024:.1f}" for fact in facts})
        cells = [row["memory"], ", ".join(held), *(f"{1e6 * fact['seconds']['median']:.0f}" for fact in facts)]
        lines.append(f"| {' | '.join(cells)} | {ratio['median']:.3f} | {ratio['q1']:.3f} to {ratio['q3']:.3f} |")
    return lines


def pod(found: dict) -> list[str]:
    """The least milliseconds that each part of a step takes on a pod."""
    rows = found["pod"]
    head = [
        f"width {row['width']}, {row['rows_per_device']} rows a chip, {row['data']} x {row['fsdp']}" for row in rows
    ]
    lines = [f"| least ms of a step on a v5e-256 | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for name in found["pod"][0]["least_seconds"]:
        cells = (f"{1e3 * row['least_seconds'][name]:.3g}" for row in found["pod"])
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def write(found: dict) -> list[str]:
    """The time of `memorize` over that of its encoder, and of others over `memorize`."""
    ratios = {(row["ratio"], row["job"], row["T"]): row["median"] for row in found["ratios"]}
    lengths, jobs = found["sizes"]["lengths"], list(dict.fromkeys(row["job"] for row in found["ratios"]))
    lines = [f"| | {' | '.join(f'T = {length:,}' for length in lengths)} |", "|---" * (1 + len(lengths)) + "|"]
    for name in dict.fromkeys(row["ratio"] for row in found["ratios"]):
        for job in jobs:
            if any((name, job, length) in ratios for length in lengths):
                times = (ratios.get((name, job, length)) for length in lengths)
                cells = ("-" if time is None else f"{time:.2f}" for time in times)
                lines.append(f"| {name.replace('/', ' / ')}, {job} | {' | '.join(cells)} |")
    return lines


def step(found: dict) -> list[str]:
    """What a training step takes, how fast it makes its products, and the share of one large product's rate."""
    head = ["", "streams", "seconds", "quartiles", "steps/s", "Gflop", "Gflop/s", "matmul Gflop/s", "share"]
    lines = [f"| {' | '.join([*head, 'times as fast'])} |", "|---" * (len(head) + 1) + "|"]
    for row in found["rows"]:
        seconds, share, faster = (row[name] for name in ("seconds", "matmul_share", "faster"))
        cells = [f"{row['variant']}, {row['kind']}", f"{row['streams']}", f"{seconds['median']:.3g}"]
        cells += [f"{seconds['q1']:.3g} to {seconds['q3']:.3g}", f"{row['steps_per_s']['median']:.3g}"]
        rates = (row["flops"], *(row[name]["median"] for name in ("flops_per_s", "matmul_per_s")))
        cells += [*(f"{rate / 1e9:.1f}" for rate in rates), f"{100 * share['median']:.0f}%"]
        lines.append(f"| {' | '.join(cells)} | {faster['median']:.2f} |")
    return lines


def questions(found: dict) -> list[str]:
    """What questions cost after one write, against the write alone, and against a write for each."""
    lines = ["| questions | time / that of the write | a write for each / one for all |", "|---|---|---|"]
    for row in found["questions"]:
        cells = f"{row['once/write']['median']:.2f} | {row['again/once']['median']:.3g}"
        lines.append(f"| {row['Q']:,} | {cells} |")
    return lines


def worlds(found: dict) -> list[str]:
    """How many steps a second are learned from, and how many are walked."""
    lines = ["| | steps a second |", "|---|---|"]
    for row in found["learning"]["rows"]:
        lines.append(f"| learned retention, {row['contender']} | {row['steps_per_second']:,.0f} |")
    return [*lines, f"| mazes walked, memjax | {found['mazes']['steps_per_second']:,.0f} |"]


def kernel(found: dict) -> list[str]:
    """What a kernel of one chunk and head computes and moves, and the tokens per second that this allows."""
    devices = list(found["devices"])
    head = ["C, d", "", "Mflop", "KB", "flop per byte", "KB by products alone"]
    lines = [f"| {' | '.join([*head, *(f'{name}, million tokens/s' for name in devices)])} |"]
    lines.append("|---" * (len(head) + len(devices)) + "|")
    for row in found["rows"]:
        cells = [f"{row['C']}, {row['d']}", row["job"], f"{row['flops'] / 1e6:.1f}", f"{row['bytes'] / 1e3:.0f}"]
        cells += [f"{row['flops'] / row['bytes']:.0f}", f"{row['bytes_of_products'] / 1e3:,.0f}"]
        for name in devices:
            pace, without = (row[name][key] / 1e6 for key in ("tokens_per_s", "without"))
            cells.append(f"{pace:.0f} ({without:.0f})")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def kernel_pace(found: dict) -> list[str]:
    """What the kernel reaches on an accelerator, beside the closed form without it."""
    head = ["C, d", "", "kernel, million tokens/s", "closed form", "ratio of times (quartiles)", "of the matmul rate"]
    lines = [f"| {' | '.join([*head, 'errors'])} |", "|---" * (1 + len(head)) + "|"]
    for row in found["rows"]:
        kernel, plain, times = row["pallas"], row["closed_form"], row["closed_form/pallas"]
        cells = [f"{row['C']}, {row['d']}", row["job"], *(f"{x['tokens_per_s'] / 1e6:.0f}" for x in (kernel, plain))]
        cells.append(f"{times['median']:.2f} ({times['q1']:.2f} to {times['q3']:.2f})")
        cells += [f"{100 * kernel['share']:.0f}%", f"{kernel['error']:.0e}, {plain['error']:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
