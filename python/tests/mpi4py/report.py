"""The table of scripts/mpi4py_tests.sh: report.py DIRECTORY DOCS|- RANKS FILE..."""

from __future__ import annotations

import glob
import sys

BEGIN, END = "<!-- mpi4py's tests: begin -->", "<!-- mpi4py's tests: end -->"
WORST = ("failed", "cannot", "skipped", "passed")


def outcomes(directory: str, file: str, ranks: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Of each test the worst outcome of all ranks and worlds, and why."""
    worst: dict[str, str] = {}
    why: dict[str, str] = {}
    for n in ranks:
        paths = [p for p in glob.glob(f"{directory}/{file}.{n}.*") if p.rsplit(".", 1)[1].isdigit()]
        if len(paths) != int(n):
            worst[f"(the run with {n} ranks)"] = "failed"
            why[f"(the run with {n} ranks)"] = "it did not end"
        for path in paths:
            for line in open(path, encoding="utf-8"):
                outcome, name, reason = (line.rstrip("\n").split("\t") + [""])[:3]
                if name not in worst or WORST.index(outcome) < WORST.index(worst[name]):
                    worst[name], why[name] = outcome, reason
    return worst, why


def main() -> None:
    directory, docs, ranks, *files = sys.argv[1:]
    lines = ["| file | passed | skipped by mpi4py | failed | cannot |", "|---|---|---|---|---|"]
    reasons: dict[str, int] = {}
    for file in files:
        worst, why = outcomes(directory, file, ranks.split())
        count = {o: sum(v == o for v in worst.values()) for o in WORST}
        lines.append(f"| `{file}` | {count['passed']} | {count['skipped']} | {count['failed']} | {count['cannot']} |")
        for name, outcome in worst.items():
            if outcome == "cannot":
                reasons[why[name]] = reasons.get(why[name], 0) + 1
            elif outcome == "failed":
                print(f"{file}: {name}: {why[name]}", file=sys.stderr)
    lines += ["", f"With {', '.join(ranks.split())} ranks; a test counts once, by its worst outcome.", "", "| why not | tests |", "|---|---|"]
    lines += [f"| {r.removeprefix('NotImplementedError: ')} | {n} |" for r, n in sorted(reasons.items())]
    text = "\n".join(lines)
    if docs == "-":
        print(text)
        return
    page = open(docs, encoding="utf-8").read()
    head, rest = page.split(BEGIN)
    with open(docs, "w", encoding="utf-8") as out:
        out.write(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


main()
