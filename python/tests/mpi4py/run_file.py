"""Runs one test file of mpi4py against nexar.mpi, as one rank: run_file.py DIRECTORY FILE RESULT.

Writes to RESULT.<rank> one line for each test: its outcome, its name, and why.
"""

from __future__ import annotations

import sys
import types
import unittest


def stand_in() -> None:
    """A module mpi4py, whose MPI is nexar's."""
    import nexar.mpi
    from nexar.mpi import MPI

    package = types.ModuleType("mpi4py")
    package.__path__ = []
    package.__version__ = "0.0.0"
    package.MPI, package.rc = MPI, nexar.mpi.rc
    sys.modules.update({"mpi4py": package, "mpi4py.MPI": MPI})


class Result(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.bad: set[str] = set()

    def note(self, outcome: str, test: unittest.TestCase, why: str = "") -> None:
        name = ".".join(test.id().split()[0].split(".")[-2:])
        if outcome != "passed" or name not in self.bad:
            self.lines.append(f"{outcome}\t{name}\t{' '.join(why.split())[:300]}")

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note("passed", test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note("skipped", test, reason)

    def problem(self, test: unittest.TestCase, err: object) -> None:
        name = ".".join(test.id().split()[0].split(".")[-2:])
        if name in self.bad:
            return
        self.bad.add(name)
        kind, value, _ = err  # type: ignore[misc]
        self.note("cannot" if issubclass(kind, NotImplementedError) else "failed", test,
                  f"{kind.__name__}: {value}")  # fmt: skip
        if not issubclass(kind, NotImplementedError):
            print(self._exc_info_to_string(err, test), file=sys.stderr)  # type: ignore[attr-defined]

    def addError(self, test: unittest.TestCase, err: object) -> None:
        self.problem(test, err)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self.problem(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
        if err is not None:
            self.problem(test, err)


def main() -> None:
    directory, file, path = sys.argv[1:4]
    only = sys.argv[4:]
    stand_in()
    sys.path.insert(0, directory)
    sys.dont_write_bytecode = True
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    result = Result()
    loader = unittest.TestLoader()
    name = file.removesuffix(".py")
    suite = loader.loadTestsFromNames([f"{name}.{o}" for o in only] or [name])
    suite.run(result)
    with open(f"{path}.{rank}", "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in result.lines)


main()
