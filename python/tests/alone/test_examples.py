import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path):
    done = subprocess.run([sys.executable, "-m", "nexar", "run", "-n", "3", str(path)],
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    error = re.search(r"largest error of a weight ([0-9.]+)", done.stdout)
    assert error is None or float(error.group(1)) < 0.1, done.stdout
