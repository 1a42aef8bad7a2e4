#!/usr/bin/env python3
"""torch_acceptance.py [-k REGEX] [--ranks N] [--backends A,B] - runs the tests of torch.distributed that
torch itself ships (torch.testing._internal.distributed.distributed_test), for nexar and for Gloo, and
prints how many pass with each, and which ones pass with Gloo only.

Run it by a Python that has torch, numpy and expecttest, with the package nexar on PYTHONPATH;
build/venv-torch of scripts/torch_tests.sh is such a one."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any



class Named(str):
    """A backend's name that the tests' conditions take for Gloo's, so that they skip nothing that
    Gloo runs.  torch itself looks names up in upper case."""

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("gloo")

    def lower(self) -> str:
        return str.lower(self)


class Outcomes(unittest.TestResult):
    """Writes one line per test as it ends."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self.file = file

    def note(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        name = test.id().split(".")[-1]
        json.dump({"test": name, "outcome": outcome, "why": why[-6000:]}, self.file)
        self.file.write("\n")
        self.file.flush()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", self._exc_info_to_string(err, test))


def run_suite(pattern: str, outcomes: str) -> None:
    """In a process with BACKEND and WORLD_SIZE set: the tests whose names match."""
    import torch

    import nexar.torch
    from torch.testing._internal import common_distributed

    backend = os.environ["BACKEND"]
    if backend != "gloo":
        nexar.torch.load()  # before the ranks are forked
        decode = os.environ.decodevalue
        os.environ.decodevalue = lambda value: (
            Named(backend) if decode(value) == backend else decode(value)
        )
        common_distributed.DistTestCases.backend_feature.setdefault("plugin", set()).add(backend)
    from torch.testing._internal.distributed import distributed_test as suite

    torch.set_num_threads(1)
    for name in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(suite, name).append(backend)
    if backend != "gloo":
        os.environ.decodevalue = decode

    class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()  # a fork needs no second import of torch
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    names = unittest.TestLoader().getTestCaseNames(Case)
    tests = unittest.TestSuite(Case(name) for name in names if re.search(pattern, name))
    with open(outcomes, "w") as file:
        tests.run(Outcomes(file))


def outcomes_of(backend: str, ranks: int, pattern: str, log: str) -> dict[str, dict[str, str]]:
    """The outcome of each test, with the reason of those that did not pass."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/outcomes"
        environment = {
            **os.environ,
            "BACKEND": backend,
            "WORLD_SIZE": str(ranks),
            "TEMP_DIR": folder,
            "OMP_NUM_THREADS": "1",
        }
        with open(f"{log}.{backend}", "w") as output:
            subprocess.run(
                [sys.executable, __file__, "-k", pattern, "--one", file],
                env=environment, stdout=output, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if not os.path.exists(file):
            sys.exit(f"torch_acceptance: the tests did not start; see {log}.{backend}")
        with open(file) as lines:
            results = [json.loads(line) for line in lines]
    return {result["test"]: result for result in results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", metavar="REGEX", help="tests with matching names")
    parser.add_argument("--ranks", type=int, default=3, help="world size (3)")
    parser.add_argument("--backends", default="gloo,nexar")
    parser.add_argument("--log", default="/tmp/torch_acceptance", help="where the output goes")
    parser.add_argument("--one", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_suite(options.k, options.one)
        return
    all_results = {
        backend: outcomes_of(backend, options.ranks, options.k, options.log)
        for backend in options.backends.split(",")
    }
    print(f"world size {options.ranks}: backend, passed, skipped, failed")
    for backend, results in all_results.items():
        counts = [sum(r["outcome"] == o for r in results.values())
                  for o in ("passed", "skipped", "failed")]  # fmt: skip
        print(f"| {backend} | {' | '.join(map(str, counts))} |")
    for name, result in all_results.get("nexar", {}).items():
        if result["outcome"] == "failed":
            gloo = all_results.get("gloo", {}).get(name, {}).get("outcome", "not run")
            print(f"\n{name}: failed (gloo: {gloo})\n{result['why']}")


if __name__ == "__main__":
    main()
