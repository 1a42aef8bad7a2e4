"""Every program of docs/guide/python.md runs, by the command below it."""

import pathlib
import re
import shlex
import subprocess
import sys

import pytest

GUIDE = pathlib.Path(__file__).parents[3] / "docs/guide/python.md"
TEXT = GUIDE.read_text()
PROGRAMS = re.findall(r"```python\n(# (\S+\.py)\n.*?)```", TEXT, re.S)
COMMANDS = re.findall(r"^    (python -m nexar .*)$", TEXT, re.M)
SAYS = {
    "hello.py": ["rank 3 of 4: [6. 6. 6. 6.]"],
    "awaiting.py": ["(2, 3)", "(0, 3)", "(1, 3)"],
    "objects.py": ["'names': ['worker 0', 'worker 1', 'worker 2']", "worker 2"],
    "survive.py": ["rank 0 of 2 continues: 2", "rank 1 of 2 continues: 2"],
    "sums.py": ["[3. 3. 3.] 3"],
}


def test_every_program_has_a_command_and_the_reverse():
    assert TEXT.count("```python") == len(PROGRAMS)
    names = [name for _, name in PROGRAMS]
    assert sorted(names) == sorted(c.split()[-1] for c in COMMANDS) and set(SAYS) <= set(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_program(command, tmp_path):
    for text, name in PROGRAMS:
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, *shlex.split(command)[1:]], cwd=tmp_path,
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    failure = "--elastic" in command  # nexar run reports the rank that is killed
    assert done.returncode == 0 and (failure or done.stderr == ""), done
    for words in SAYS.get(command.split()[-1], []):
        assert words in done.stdout


def test_every_call_of_the_tables_exists():
    import nexar

    cells = re.findall(r"^\| (`.*?) \|", TEXT[TEXT.index("## Calls") : TEXT.index("## Examples")], re.M)
    named = set(re.findall(r"`(?:nexar\.)?([a-z_]+)[`(]", " ".join(cells), re.I))
    known = set(dir(nexar.Comm)) | set(dir(nexar.Request)) | set(nexar.__all__)
    assert named and named <= known, named - known


def test_every_public_call_is_in_the_guide():
    import nexar

    for cls in (nexar.Comm, nexar.Request):
        for name in dir(cls):
            form = name[1:] if name[0] == "i" and hasattr(cls, name[1:]) else name
            assert name[0] == "_" or re.search(rf"\b{name}\b|\b{form}\b", TEXT), name
    for name in nexar.__all__:
        assert name.endswith("Error") or re.search(rf"\b{name}\b", TEXT) or name in ("Code", "Comm"), name
