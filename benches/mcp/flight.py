"""Prints what `run flight` measured: medians over the rounds, and the median of the ratios to the
minimal server of the same kind, taken within a round."""

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


def shown(figure):
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def print_row(title, cells):
    print("|", " | ".join([title, *cells]), "|")


def ratio(case, beside, depth, size, of):
    ours, theirs = rows[case, size, depth], rows[beside, size, depth]
    ratios = [of(ours[round], theirs[round]) for round in ours if round in theirs]
    return f"{median(ratios):.2f}" if ratios else ""


def print_table(title, key, of):
    print_row(title, [f"{SIZES.get(size, size)} d{depth}" for depth, size in columns])
    print("|---" * (len(columns) + 1) + "|")
    for case in cases:
        found = [rows[case, size, depth].values() for depth, size in columns]
        print_row(case, [shown(median(row[key] for row in all)) if all else "" for all in found])
        kind = case.removeprefix("toolbus, ")
        beside = f"minimal, {kind}"
        if kind != case and beside in cases:
            print_row(f"of {beside}", [ratio(case, beside, *column, of) for column in columns])
    print()


print_table("µs until the answer", "p50", lambda ours, theirs: theirs["p50"] / ours["p50"])
print_table("calls a second", "rate", lambda ours, theirs: ours["rate"] / theirs["rate"])
print_table("server CPU, µs a call", "cpu_us", lambda ours, theirs: theirs["cpu_us"] / ours["cpu_us"])
