#!/usr/bin/env python3
"""reference_pages.py [--check] NEXAR - pages of docs/reference made from the command and the sources.

settings.md  every setting, as `nexar info --json` lists it
commands.md  every command, as `nexar help COMMAND` describes it
messages.md  every error message and log line, from the sources
man/nexar.7  its section SETTINGS, from the same list as settings.md
--check writes nothing and fails if a page is out of date, or if a message is not one line.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
CALL = re.compile(r"\b(nx_fail(?:_[a-z]+)?|nx_log(?:_always|_limited)?)\s*\(")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
NO_SENTENCE = {"nx_fail_nomem"}


def run(nexar, *words):
    return subprocess.run([nexar, *words], check=True, capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "COLUMNS": "100"}).stdout


def cell(text):
    return text.replace("|", "\\|")


def settings(nexar):
    rows = json.loads(run(nexar, "info", "--json"))["settings"]
    lines = ["# Settings", "",
             "A setting is given by its environment variable (`log` is `NEXAR_LOG`), or by `nexar_config_set`.",
             "`nexar info` prints the value and origin of each one.  This page is made from its table.", "",
             "| setting | default | accepted | meaning |", "|---|---|---|---|"]
    for row in rows:
        value = f"`{row['value']}`" if row["value"] else "empty"
        unit = f" {row['unit']}" if row["unit"] and row["value"] else ""
        lines.append(f"| `{row['setting']}` | {value}{unit} | {cell(row['accepted'])} | {cell(row['help'])} |")
    return "\n".join(lines) + "\n"


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"^([.'])", r"\\&\1", text)


def manual(nexar):
    """man/nexar.7 with the settings of the table between its two marks."""
    page = (ROOT / "man" / "nexar.7").read_text()
    lines = []
    for row in json.loads(run(nexar, "info", "--json"))["settings"]:
        unit = f" {row['unit']}" if row["unit"] and row["value"] else ""
        default = f"default {row['value']}{unit}" if row["value"] else "empty by default"
        text = f"{row['help'][:1].upper()}{row['help'][1:]}."
        lines += [".TP", f".BR {roff(row['setting'])} \", \" NEXAR_{roff(row['setting'].upper())}", roff(text),
                  f"Accepted: {roff(row['accepted'])}; {roff(default)}."]
    begin, end = '.\\" settings: made by scripts/reference_pages.py\n', '.\\" end of settings\n'
    head, rest = page.split(begin)
    return head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def commands(nexar):
    names = re.findall(r"^  (\w+) +\S", run(nexar, "--help").split("commands:")[1], re.M)
    parts = ["# Commands", "", "This page is made from the help texts of `nexar`.", ""]
    for name in ["", *(n for n in names if n != "help")]:
        text = run(nexar, *(["help", name] if name else ["--help"]))
        parts += [f"## nexar {name}".rstrip(), "", "```text", text.rstrip(), "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def arguments(source, start):
    """The text between the parenthesis at |start| and its partner."""
    depth, i, quoted = 0, start, False
    while True:
        c = source[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"' or source[i] != '"'
        elif c == '"':
            quoted = True
        elif c in "()":
            depth += 1 if c == "(" else -1
            if depth == 0:
                return source[start + 1:i]
        i += 1


def plain(fmt):
    fmt = re.sub(r'%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j)?[diuxXscgfp]', "...", fmt)
    return fmt.replace("%%", "%").replace('\\"', '"').replace("\\n", "\n")


def sentences(body):
    """The format strings among the arguments |body|: adjacent literals are one."""
    body = re.sub(r'"\s*PRI\w+\s*"', "u", re.sub(r'"\s*PRI\w+', 'u"', body)) if "PRI" in body else body
    for found in re.finditer(r'(?:"(?:[^"\\]|\\.)*"\s*)+', body):
        yield plain("".join(STRING.findall(found.group(0))))


def messages_of(path):
    source = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    for call in CALL.finditer(source):
        if call.group(1) in NO_SENTENCE:
            continue
        body = arguments(source, call.end() - 1)
        first = next((s for s in sentences(body) if len(s.split()) > 1), None)
        if first is not None:
            code = re.match(r"\s*(NEXAR_E\w+|NX_LOG_\w+)", body)
            yield (code.group(1) if code else {"nx_fail_sys": "NEXAR_ESYS"}.get(call.group(1), "")), first


def messages():
    areas = collections.defaultdict(set)
    for path in sorted((ROOT / "src").rglob("*.c")):
        if not path.name.endswith("_test.c"):
            area = path.relative_to(ROOT / "src").parts[0]
            areas[area].update(messages_of(path))
    lines = ["# Messages", "",
             "Every error message and log line of nexar, from the sources; `...` stands for a value.", ""]
    for area, found in sorted(areas.items()):
        lines += [f"## {area}", "", "| code or level | message |", "|---|---|"]
        for code, text in sorted(found, key=lambda m: (m[1].lower(), m[0])):
            code = code.replace("NX_LOG_", "").lower() if code.startswith("NX_LOG_") else code
            lines.append(f"| {code} | {cell(text)} |")
        lines.append("")
    problems = [f"not one line: {text!r}" for found in areas.values() for _, text in found if "\n" in text.strip("\n")]
    return "\n".join(lines).rstrip() + "\n", problems


def main():
    words = [w for w in sys.argv[1:] if w != "--check"]
    if len(words) != 1:
        sys.exit(__doc__)
    text, problems = messages()
    pages = {FOLDER / "settings.md": settings(words[0]), FOLDER / "commands.md": commands(words[0]),
             FOLDER / "messages.md": text, ROOT / "man" / "nexar.7": manual(words[0])}
    for path, content in pages.items():
        if path.is_file() and path.read_text() == content:
            continue
        if "--check" in sys.argv:
            problems.append(f"{path.relative_to(ROOT)} is out of date: run make docs")
        else:
            path.write_text(content)
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
