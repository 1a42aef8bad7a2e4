#!/usr/bin/env python3
"""api_pages.py [--check] markdown FOLDER | man FOLDER - reference pages from include/nexar.h.

One page per public call, an index by section, and a page of types.  A comment of the header
describes the declarations that follow it; a comment that begins with "----" opens a section.
--check writes nothing and fails if FOLDER is out of date.
"""
import pathlib
import re
import sys
import textwrap

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include" / "nexar.h"
TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<code>(?:typedef|NEXAR_API|#define)\b(?:[^\n;{]|\\\n|\n(?!\n))*"
                   r"(?:\{.*?^\}[^;]*;|;|(?<=\n)|$))", re.S | re.M)
CALL = re.compile(r"\b(nexar_\w+)\(")
ERRORS = re.compile(r"^((?:NEXAR_E\w+)(?:, NEXAR_E\w+)*)$")
MANUAL = "nexar manual"


class Group:
    """A comment and the declarations that it describes."""

    def __init__(self, section, text):
        self.section, self.text, self.code = section, text, []

    def calls(self):
        return [CALL.search(c).group(1) for c in self.code if c.startswith("NEXAR_API")]

    def types(self):
        return [c for c in self.code if not c.startswith("NEXAR_API")]

    def summary(self):
        first = re.split(r"(?<=[.;:])\s", " ".join(self.text.split()), maxsplit=1)[0]
        return first.rstrip(".;:")


class Section:
    def __init__(self, title, text):
        self.title, self.text = title, text


def plain(comment):
    lines = [re.sub(r"^ ?\* ?", "", line.strip() if line.strip().startswith("*") else line.rstrip())
             for line in comment.split("\n")]
    return textwrap.dedent("\n".join(lines)).strip()


def declarations(source):
    """Sections and groups of the header, in order."""
    body = source[source.index("/* ----"):source.rindex("#ifdef __cplusplus")]
    section, group, groups, sections = None, None, [], []
    for token in TOKEN.finditer(body):
        if token.group("comment") is not None:
            text = plain(token.group("comment"))
            if text.startswith("----"):
                head, _, rest = text.partition("\n")
                section = Section(head.strip("- "), rest.strip())
                sections.append(section)
                group = Group(section, "")
            else:
                group = Group(section, text)
            groups.append(group)
        elif group is not None and not re.match(r"#define NEXAR_(VERSION|API|ERROR_ENUM|IN_PLACE)", token.group("code")):
            group.code.append(token.group("code").strip())
    return sections, [g for g in groups if g.code]


def marked(text):
    """Names of parameters, |n| in the header, as code."""
    return re.sub(r"\|(\*?\w+)\|", r"`\1`", text)


def prototype(code):
    return re.sub(r"\s+", " ", code.removeprefix("NEXAR_API ")).strip()


def blocks(text):
    """Yields (kind, lines): para, item, code, or errors (a name and its text)."""
    for part in re.split(r"\n\s*\n", text):
        lines = part.split("\n")
        pending, at = [], 0
        while at < len(lines):
            named = ERRORS.match(lines[at].strip())
            if named and not lines[at].startswith(" "):
                if pending:
                    yield "para", pending
                    pending = []
                body = []
                at += 1
                while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                    body.append(lines[at].strip())
                    at += 1
                yield "error", [named.group(1), " ".join(body)]
                continue
            pending.append(lines[at])
            at += 1
        if pending and any(line.strip() for line in pending):
            yield ("list" if re.match(r"\s*- ", pending[0]) or re.match(r"  +\S", pending[0]) else "para"), pending


def markdown_text(text):
    out, errors = [], []
    for kind, lines in blocks(text):
        if kind == "error":
            errors.append(f"| {', '.join(f'`{e}`' for e in lines[0].split(', '))} | {marked(lines[1]) or '-'} |")
        elif kind == "para":
            body = []
            for line in lines:
                body.append(marked(line.strip()) if not re.match(r"  +\S", line)
                            else "    " + line.strip())
            out.append("\n".join(body))
        else:
            out.append(marked(textwrap.dedent("\n".join(lines))))
    if errors:
        out.append("| error | when |\n|---|---|\n" + "\n".join(errors))
    return "\n\n".join(out)


def markdown_page(call, group):
    code = "\n".join(textwrap.fill(prototype(c) , 92, subsequent_indent="        ")
                     for c in group.code if c.startswith("NEXAR_API"))
    others = [c for c in group.calls() if c != call]
    parts = [f"# {call}", f"```c\n#include <nexar.h>\n\n{code}\n```"]
    parts.append(markdown_text(group.text))
    if others:
        parts.append("Described together with " + ", ".join(f"[{o}]({o}.md)" for o in others) + ".")
    parts.append(f"Section: [{group.section.title}](README.md#{anchor(group.section.title)}).")
    return "\n\n".join(p for p in parts if p) + "\n"


def anchor(title):
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def markdown_index(sections, groups):
    out = ["# The C interface", "Generated from `include/nexar.h` by `make docs`.  The types are in [types.md](types.md)."]
    for section in sections:
        mine = [g for g in groups if g.section is section and g.calls()]
        out.append(f"## {section.title}")
        if section.text:
            out.append(markdown_text(section.text))
        rows = [f"| {', '.join(f'[{c}]({c}.md)' for c in g.calls())} | {marked(g.summary())} |" for g in mine]
        if rows:
            out.append("| call | purpose |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(out) + "\n"


def markdown_types(sections, groups):
    out = ["# Types and constants of the C interface"]
    for section in sections:
        mine = [g for g in groups if g.section is section and g.types()]
        if not mine:
            continue
        out.append(f"## {section.title}")
        for g in mine:
            if not g.calls():
                out.append(markdown_text(g.text))
            out.append("```c\n" + "\n".join(g.types()) + "\n```")
    return "\n\n".join(p for p in out if p) + "\n"


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"\|(\*?\w+)\|", r"\\fI\1\\fP", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def man_page(call, group, version):
    out = [f'.TH {call} 3 "-" "nexar {version}" "{MANUAL}"', ".SH NAME",
           f"{', '.join(group.calls())} \\- {roff(group.summary())}", ".SH SYNOPSIS", ".nf", "#include <nexar.h>", ""]
    out += [roff(line) for c in group.code if c.startswith("NEXAR_API")
            for line in textwrap.wrap(prototype(c), 76, subsequent_indent="        ")]
    out += [".fi", ".SH DESCRIPTION"]
    errors = []
    for kind, lines in blocks(group.text):
        if kind == "error":
            errors += [".TP", f".B {lines[0]}", roff(lines[1] or "See the description.")]
        elif kind == "para":
            out += [".PP", roff("\n".join(line.strip() for line in lines))]
        else:
            out += [".PP", ".nf", roff("\n".join(lines)), ".fi"]
    if errors:
        out += [".SH ERRORS"] + errors
    if group.section.text:
        out.append(f".SH NOTES\nThe conventions and errors of the section \"{roff(group.section.title)}\" of \\fInexar.h\\fP apply:")
        for kind, lines in blocks(group.section.text):
            if kind == "error":
                out += [".TP", f".B {lines[0]}", roff(lines[1] or "See the description.")]
            else:
                out += [".PP"] + ([roff("\n".join(line.strip() for line in lines))] if kind == "para"
                                  else [".nf", roff("\n".join(lines)), ".fi"])
    out.append(".SH SEE ALSO\n.BR nexar (7)")
    return "\n".join(out) + "\n"


def pages(kind):
    source = HEADER.read_text()
    version = ".".join(re.search(rf"NEXAR_VERSION_{n} (\d+)", source).group(1) for n in ("MAJOR", "MINOR", "PATCH"))
    sections, groups = declarations(source)
    made = {}
    for group in groups:
        for call in group.calls():
            if kind == "man":
                made[f"{call}.3"] = man_page(call, group, version)
            else:
                made[f"{call}.md"] = markdown_page(call, group)
    if kind == "markdown":
        made["README.md"] = markdown_index(sections, groups)
        made["types.md"] = markdown_types(sections, groups)
    return made


def main():
    check = "--check" in sys.argv
    words = [a for a in sys.argv[1:] if a != "--check"]
    if len(words) != 2 or words[0] not in ("man", "markdown"):
        sys.exit(__doc__)
    made, folder = pages(words[0]), pathlib.Path(words[1])
    if check:
        here = {p.name: p.read_text() for p in folder.glob("*") if p.is_file()}
        stale = sorted(n for n in made.keys() | here.keys() if made.get(n) != here.get(n))
        if stale:
            print(f"{folder} is out of date: run `make docs`: {', '.join(stale)}")
        sys.exit(1 if stale else 0)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        if old.is_file() and old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
