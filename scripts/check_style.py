#!/usr/bin/env python3
"""check_style.py [words|length]... - the prose of documentation, comments and messages.

words   phrases that the project does not use, and what to write in their place
length  the mean sentence of a paragraph has at most 25 words

Code, tables and headings of Markdown are left out.  Of src/ only comments and strings are read.
"""
import pathlib
import re
import sys

MEAN_WORDS = 25
PHRASES = {
    r"for dead": "declared failed",
    r"whoever|those who|the one that|they who": "name the rank, the caller or the thread",
    r"goes on|go on\b(?! to)": "continues, resumes",
    r"on (its|their) way|under way": "in flight",
    r"for good\b": "permanently",
    r"for ever\b": "indefinitely, permanently",
    r"hearsay": "name the mechanism",
    r"\bparted\b": "detached, diverged",
    r"told of|is told\b|are told\b": "is notified",
    r"over there": "on the peer, at that rank",
    r"by turns": "alternating",
    r"no more than so many|so many as": "give the number",
    r"falls out of": "leaves, is removed from",
}
TEXTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "include", "docs", "man", "examples"]


def files():
    for name in TEXTS:
        path = pathlib.Path(name)
        if path.is_file():
            yield path
        else:
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".md", ".h", ".c") or
                              re.fullmatch(r"\.[1-9]", p.suffix))


def prose_of_source(text):
    """The text with everything blanked but comments and strings."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
    kept, at = [], 0
    for found in token.finditer(text):
        kept.append(re.sub(r"[^\n]", " ", text[at:found.start()]))
        kept.append(" " * len(found.group(0)) if found.group(0)[0] == "'" else found.group(0))
        at = found.end()
    return "".join(kept) + re.sub(r"[^\n]", " ", text[at:])


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def banned_phrases(path, text):
    text = re.sub(r"`[^`\n]*`", lambda m: " " * len(m.group(0)), text)  # names, not prose
    for phrase, better in PHRASES.items():
        pattern = re.compile(phrase.replace(" ", r"[\s*]+"), re.I)
        for found in pattern.finditer(text):
            said = " ".join(found.group(0).split())
            yield f'{path}:{line_of(text, found.start())}: "{said}": write: {better}'


def paragraphs(text):
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S | re.M)
    for block in re.finditer(r"(?:^(?! *\|)(?![#<]| {4})[^\n]*\S[^\n]*\n?)+", text, re.M):
        item = r"\n(?=\s*(?:[-*]|\d+\.) )"
        for part in re.split(item, block.group(0)):
            yield line_of(text, block.start()), part


def sentences(paragraph):
    plain = re.sub(r"`[^`]*`|\[([^]]*)\]\([^)]*\)", lambda m: m.group(1) or "x", paragraph).replace("**", "")
    return [s for s in re.split(r"(?<=[.:;!?])\s+", plain) if len(s.split()) > 1]


def long_sentences(path, text):
    if path.suffix != ".md":
        return
    for line, paragraph in paragraphs(text):
        lengths = [len(s.split()) for s in sentences(paragraph)]
        if lengths and sum(lengths) / len(lengths) > MEAN_WORDS:
            yield (f"{path}:{line}: the mean sentence has {sum(lengths) / len(lengths):.0f} words; "
                   f"at most {MEAN_WORDS}")


def main():
    wanted = sys.argv[1:] or ["words", "length"]
    problems = []
    if "words" in wanted:
        for path in sorted(p for p in pathlib.Path("src").rglob("*") if p.suffix in (".c", ".h")):
            problems += banned_phrases(path, prose_of_source(path.read_text()))
    for path in files():
        text = path.read_text()
        if "words" in wanted:
            problems += banned_phrases(path, text)
        if "length" in wanted:
            problems += long_sentences(path, text)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
