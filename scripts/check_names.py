#!/usr/bin/env python3
"""check_names.py - one name, one thing.

Fails when an internal type, the stem of a header, or an include guard is defined twice, when a
folder of src/ holds more than 20 sources, or when test scaffolding is in src/.
"""
import collections
import pathlib
import re
import sys

LIMIT = 20  # sources in a folder, tests not counted
SCAFFOLDING = re.compile(r"\bnxt_|\bNXT_|<cmocka\.h>|\"unit\.h\"")
TYPE = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{|^typedef [^;{}]*?\(?\*?\b(\w+)\)?(?:\([^;]*\))?;", re.M)
FORWARD = re.compile(r"^typedef (?:struct|enum|union) (\w+) \1;", re.M)
GUARD = re.compile(r"^#ifndef (\w+_H)$", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def sources(*folders):
    for folder in folders:
        yield from sorted(path for path in pathlib.Path(folder).rglob("*.[ch]"))


def twice(what, places):
    return [f"{what} {name} is defined twice: {' and '.join(sorted(set(where)))}"
            for name, where in sorted(places.items()) if len(set(where)) > 1]


def types_of(text):
    text = FORWARD.sub("", COMMENT.sub("", text))
    return {struct or typedef for struct, typedef in TYPE.findall(text)}


def defined_twice():
    types, stems, guards = (collections.defaultdict(list) for _ in range(3))
    for path in sources("src", "tests/support"):
        text = path.read_text()
        for name in types_of(text):
            if name.startswith(("nx_", "nxt_")):
                types[name].append(str(path))
        if path.suffix == ".h":
            stems[path.name].append(str(path))
            for guard in GUARD.findall(text):
                guards[guard].append(str(path))
    return twice("type", types) + twice("header", stems) + twice("include guard", guards)


def crowded_folders():
    count = collections.Counter(str(path.parent) for path in sources("src")
                                if not path.name.endswith("_test.c"))
    return [f"{folder} holds {n} sources; at most {LIMIT}: make sub-folders by subject"
            for folder, n in sorted(count.items()) if n > LIMIT]


def misplaced_scaffolding():
    return [f"{path} is test scaffolding: its place is tests/support/" for path in sources("src")
            if not path.name.endswith("_test.c") and SCAFFOLDING.search(path.read_text())]


def main():
    problems = defined_twice() + crowded_folders() + misplaced_scaffolding()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
