import json
import subprocess
import sys

import pytest

import nexar


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def test_imports_no_numpy():
    done = python("import nexar, sys; print([m for m in ('numpy', 'torch', 'asyncio') if m in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_calls_without_numpy():
    done = python(
        "import nexar, sys, array\n"
        "with nexar.init() as c:\n"
        "    a = array.array('d', [1, 2])\n"
        "    assert c.allreduce(a) is a\n"
        "    assert c.allgather(a) == a\n"
        "    assert c.bcast_obj({'a': 1}) == {'a': 1}\n"
        "print('numpy' in sys.modules)\n"
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_one_class_for_each_code():
    from nexar import _errors, _nexar

    rows = _nexar.error_table()
    assert {code for _, code, _, _ in rows} == set(_errors.CLASSES) == set(nexar.Code)
    for name, code, scope, _ in rows:
        cls = _errors.CLASSES[code]
        assert (cls.code, cls.scope, nexar.Code[name]) == (code, scope.lower(), code)
        assert cls("why").message == str(cls("why")) == "why"


def test_errors_are_what_python_has():
    assert issubclass(nexar.TimeoutError, TimeoutError)
    assert issubclass(nexar.InvalidError, ValueError)
    assert issubclass(nexar.OutOfMemoryError, MemoryError)
    assert issubclass(nexar.OsError, OSError)


def test_subinterpreter_is_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    one = interpreters.create()
    try:
        with pytest.raises(interpreters.RunFailedError, match="main interpreter"):
            interpreters.run_string(one, "import nexar")
    finally:
        interpreters.destroy(one)


def test_info():
    about = nexar.info()
    assert about["version"] == nexar.__version__
    assert about["settings"]["heartbeat_timeout"] == "5s"
    assert "join" not in about["settings"], "it is a secret"


def test_missing_calls_are_named(comm):
    with pytest.raises(nexar.NotSupportedError, match="exclude"):
        comm.exclude([0])


def test_snapshot_is_json(comm):
    comm.barrier()
    pending = comm.irecv(bytearray(1))
    about = json.loads(json.dumps(nexar.snapshot()))
    (world,) = [w for w in about["worlds"] if w["operations"]["pending"]]
    assert (world["name"], world["rank"], world["size"], world["failed"]) == ("world", 0, 1, [])
    assert world["operations"]["begun"] >= 2 and world["host"]["local_size"] == 1
    pending.cancel()
    comm.close()
    assert nexar.snapshot()["worlds"] == []


def test_free_threaded_python_is_refused_with_a_reason():
    code = (
        "import sys; sys.modules['nexar._nexar'] = None\n"  # free-threaded Pythons do not look for .abi3.so
        "sys._is_gil_enabled = lambda: False\n"
        "try: import nexar\n"
        "except ImportError as err: print(err)\n"
    )
    done = python(code)
    assert "this Python is free-threaded" in done.stdout, done


def test_import_is_cheap():
    code = "import time; t = time.process_time(); import nexar; print(time.process_time() - t)"
    spent = min(float(python(code).stdout) for _ in range(5))
    assert spent < 0.05


def test_settings_are_checked():
    with pytest.raises(nexar.InvalidError, match="no_such"):
        nexar.init(no_such=1)
    with pytest.raises(nexar.InvalidError, match="spin"):
        nexar.init(spin=object())
    with pytest.raises(nexar.InvalidError, match="collective_timeout"):
        nexar.init(collective_timeout=-1)
    for seconds in (0, 2, 2.5, "2s"):
        nexar.init(collective_timeout=seconds, verify=False, segment="64k", world_size=1).close()


def test_types_are_not_made_by_hand():
    for cls in (nexar.Comm, nexar.Request):
        with pytest.raises(nexar.InvalidError, match="not by itself"):
            cls()
