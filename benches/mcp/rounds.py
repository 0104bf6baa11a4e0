"""Prints what `run flight` and `proxy` measured: rounds.py FILE MEASURE…

The middle one of the rounds, with the least and the most; and the ratio to the row that it is
compared with, taken within a round.
"""

import json
import sys
from collections import defaultdict
from statistics import median

rows = defaultdict(dict)
for line in open(sys.argv[1]):
    row = json.loads(line)
    if "size" in row:
        rows[row["case"], row["size"], row["depth"]][row["round"]] = row

cases = list(dict.fromkeys(case for case, _, _ in rows))
columns = sorted({(depth, size) for _, size, depth in rows})
SIZES = {64: "64 B", 4096: "4 KiB", 262144: "256 KiB", 8388608: "8 MiB"}
TITLES = {
    "p50": "µs until the answer",
    "rate": "calls a second",
    "cpu_us": "CPU, µs a call",
    "rss": "memory, KiB",
}


def shown(figure):
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def spread(figures, shown):
    return f"{shown(median(figures))} ({shown(min(figures))} to {shown(max(figures))})" if figures else ""


def beside(case):
    """What it is compared with: the minimal server of its kind, or the minimal bridge."""
    for name in (f"minimal, {case.removeprefix('toolbus, ')}", "minimal Rust bridge (limit)"):
        if name in cases and name != case:
            return name
    return None


def print_row(title, cells):
    print("|", " | ".join([title, *cells]), "|")


def print_table(key):
    more_is_better = key == "rate"
    print_row(TITLES[key], [f"{SIZES.get(size, size)} d{depth}" for depth, size in columns])
    print("|---" * (len(columns) + 1) + "|")
    for case in cases:
        name = f"**{case}**" if case.startswith("toolbus") else case
        print_row(name, [spread([row[key] for row in rows[case, size, depth].values() if key in row], shown) for depth, size in columns])
        other = beside(case)
        if other and case.startswith("toolbus"):
            cells = []
            for depth, size in columns:
                ours, theirs = rows[case, size, depth], rows[other, size, depth]
                both = [(ours[at][key], theirs[at][key]) for at in ours if at in theirs]
                ratios = [our / their if more_is_better else their / our for our, their in both if our and their]
                cells.append(spread(ratios, lambda ratio: f"{ratio:.2f}"))
            print_row(f"of {other}", cells)
    print()


for measure in sys.argv[2:]:
    print_table(measure)
