import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path):
    done = subprocess.run([sys.executable, "-m", "nexar", "run", "-n", "3", str(path)],
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    error = re.search(r"largest error of a weight ([0-9.]+)", done.stdout)
    assert error is None or float(error.group(1)) < 0.1, done.stdout


def run(n, *args):
    done = subprocess.run([sys.executable, "-m", "nexar", "run", "-n", str(n), *map(str, args)],
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_map_has_every_result(ranks):
    want = [math.factorial(n).bit_length() for n in range(0, 2000, 50)]
    assert f"40 results, {sum(want)} bits" in run(ranks, FOLDER / "parallel_map.py")


def test_map_raises_what_a_rank_raised(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
        "import nexar, parallel_map\n"
        "with nexar.init() as comm:\n"
        "    try: got = parallel_map.parallel_map(comm, lambda n: 1 // n, [3, 0, 2])\n"
        "    except ZeroDivisionError as err: got = repr(err)\n"
        "    print('got', got)\n"
    )
    assert "got ZeroDivisionError" in run(3, script)


def test_kmeans_survives_growth_and_a_kill():
    done = subprocess.run([sys.executable, "-m", "nexar", "run", "--elastic", "-n", "2", str(FOLDER / "elastic_kmeans.py"),
                           "--grow", "4", "--kill"], capture_output=True, text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0 and "step 40: 4 ranks become 3" in done.stdout, done
    off = re.search(r"3 ranks at the end: largest difference from one rank alone (\S+)", done.stdout)
    assert float(off.group(1)) < 1e-6, done.stdout


def test_gateway_uses_every_worker():
    out = run(3, FOLDER / "gateway.py")
    assert "20 requests answered by ranks [1, 2]" in out


def test_gateway_serves_until_interrupted():
    with subprocess.Popen([sys.executable, "-m", "nexar", "run", "-n", "2", str(FOLDER / "gateway.py"), "-1"],
                          stdout=subprocess.PIPE, text=True) as job:  # fmt: skip
        port = int(re.search(r":(\d+)/", job.stdout.readline()).group(1))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/primes?below=100", timeout=300) as reply:
            assert json.load(reply) == {"below": 100, "primes": 25, "rank": 1}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/primes?below=x", timeout=300)
        job.send_signal(signal.SIGINT)
        job.wait(300)
