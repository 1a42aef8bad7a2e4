#!/usr/bin/env python3
"""diagrams.py [--check] - the pictures of docs/internals, as SVG.

A picture is data: boxes of layers, or messages between columns in order of time.
--check writes nothing and fails if a picture is out of date.
"""
import pathlib
import sys
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "internals" / "diagrams"
STYLE = """<style>
text{font:14px sans-serif;fill:#1f2328}
.small{font-size:12px;fill:#57606a}
.box{fill:#f6f8fa;stroke:#57606a}
.line{stroke:#57606a;fill:none}
.arrow{stroke:#0969da;fill:none;marker-end:url(#head)}
.head{fill:#0969da}
.note{fill:#fff8c5;stroke:#d4a72c}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}.box{fill:#161b22;stroke:#9198a1}.line{stroke:#9198a1}
.arrow{stroke:#58a6ff}.head{fill:#58a6ff}.note{fill:#3a2f00;stroke:#d4a72c}}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>"""

LAYERS = [
    [("application: C, C++, Python, PyTorch", "include/nexar.h")],
    [("cmd", "run, seed, ping, bench, info, plan"), ("core", "worlds, communicators, settings, calls")],
    [("coll", "schedules, selection, engine"), ("rpc", "calls, handlers"),
     ("cluster", "seed, view, membership, consensus")],
    [("msg", "tags, matching, requests, flow control")],
    [("transport", "contract; shm, quic, tcp, sim"), ("device", "memory adapters"), ("reduce", "kernels"),
     ("wire", "codecs")],
    [("loop", "one progress engine: descriptors, timers, wake-ups")],
    [("base", "errors, log, allocation, clock, system calls, containers")],
]

# (columns, steps); a step is (from, to, text), or (column, text) for a note.
SEQUENCES = {
    "message": (["sender: application", "sender: msg", "receiver: msg", "receiver: application"], [
        (0, 1, "nexar_send: 1 MiB"),
        (1, 2, "envelope LONG, eager fragment (credit)"),
        (2, "unexpected: stored, charged to the credit"),
        (3, 2, "nexar_recv matches"),
        (2, 1, "CLEAR: send the rest"),
        (1, 2, "fragments, each with its offset"),
        (2, "each fragment lands in the receive buffer"),
        (1, 0, "sent"),
        (2, 3, "received"),
    ]),
    "link": (["lower member", "higher member"], [
        (0, 1, "dial by every address; mutual certificates"),
        (1, 0, "dial at the same time"),
        (0, "takes the first connection that comes up"),
        (0, 1, "HELLO on that connection opens all windows"),
        (1, "follows, closes its other connections"),
        (0, 1, "envelopes, fragments, control frames"),
        (1, 0, "envelopes, fragments, control frames"),
        (0, "no answer: repeats the last packet on every path"),
        (1, 0, "heard on another path: the link continues there"),
        (0, 1, "BYE: left.  A link that ends without it: suspect"),
    ]),
    "joining": (["joiner", "seed", "members"], [
        (0, 1, "HELLO: proof of the token, certificate request"),
        (1, 0, "WELCOME: member number, certificate"),
        (1, 2, "WAITING: who waits"),
        (2, "nexar_comm_update: consensus on who joins"),
        (2, 1, "ADVANCE: the change"),
        (1, 0, "VIEW: members, ranks, addresses"),
        (0, 1, "HAVE: the whole view"),
        (1, 0, "START"),
        (1, 2, "START"),
        (0, 2, "dial on first use; the view pins each key"),
    ]),
    "recovery": (["rank 0", "rank 1", "rank 2 (fails)"], [
        (0, 2, "allreduce"),
        (1, 2, "allreduce"),
        (2, "the process ends"),
        (0, "detector: process exit, link end or heartbeat"),
        (0, 1, "reliable broadcast: rank 2 has failed"),
        (1, "membership: failed; then messages, collectives, calls"),
        (0, 1, "UP, PROPOSE, ACK, DECIDE: the survivors"),
        (0, "next incarnation by one pointer swap"),
        (1, "next incarnation by one pointer swap"),
        (0, 1, "the allreduce runs again (retry=on)"),
    ]),
}


def svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">\n{STYLE}\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, words, small=False, anchor="middle"):
    kind = ' class="small"' if small else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def layers():
    width, gap, row = 760, 8, 54
    body = []
    for i, boxes in enumerate(LAYERS):
        each = (width - gap * (len(boxes) - 1)) / len(boxes)
        for k, (name, what) in enumerate(boxes):
            x, y = k * (each + gap), i * (row + gap)
            body.append(f'<rect class="box" x="{x + .5:g}" y="{y + .5}" width="{each - 1:g}" height="{row}" rx="4"/>')
            body += [text(f"{x + each / 2:g}", y + 22, name), text(f"{x + each / 2:g}", y + 42, what, small=True)]
    return svg(width, len(LAYERS) * (row + gap), body)


def step(columns, y, item):
    if len(item) == 2:
        column, words = item
        half = 3.4 * len(words) + 10
        x = min(max(columns[column], half + 1), columns[-1] + columns[0] - half - 1)
        return [f'<rect class="note" x="{x - half:g}" y="{y - 16}" width="{2 * half:g}" height="22" rx="4"/>',
                text(f"{x:g}", y, words, small=True)]
    start, end, words = columns[item[0]], columns[item[1]], item[2]
    inset = 2 if end > start else -2
    return [f'<line class="arrow" x1="{start}" y1="{y}" x2="{end - inset}" y2="{y}"/>',
            text(f"{(start + end) / 2:g}", y - 5, words, small=True)]


def sequence(names, items):
    width = 760
    columns = [int(width * (i + .5) / len(names)) for i in range(len(names))]
    height = 60 + 36 * len(items)
    body = []
    for x, name in zip(columns, names):
        body += [text(x, 18, name), f'<line class="line" x1="{x}" y1="26" x2="{x}" y2="{height - 6}"/>']
    for i, item in enumerate(items):
        body += step(columns, 56 + 36 * i, item)
    return svg(width, height, body)


def main():
    pictures = {"layers": layers(), **{name: sequence(*what) for name, what in SEQUENCES.items()}}
    stale = [name for name, content in pictures.items()
             if not (path := FOLDER / f"{name}.svg").is_file() or path.read_text() != content]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/internals/diagrams/{name}.svg is out of date: run scripts/diagrams.py")
        sys.exit(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / f"{name}.svg").write_text(pictures[name])


if __name__ == "__main__":
    main()
