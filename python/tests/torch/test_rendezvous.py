"""Process groups form through every kind of Store, and find the backend without an import."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def summed(rank: int, size: int) -> None:
    ones = torch.ones(2)
    dist.all_reduce(ones)
    assert ones[0] == size


def formed_by_tcp(rank: int, size: int, where: str) -> None:
    dist.destroy_process_group()
    store = dist.FileStore(where, size)
    if rank == 0:
        server = dist.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
        store.set("port", str(server.port))
    else:
        server = dist.TCPStore("127.0.0.1", int(store.get("port")), size, wait_for_workers=False)
    for _ in range(2):  # one Store serves one group after the other
        dist.init_process_group("nexar", store=server, rank=rank, world_size=size)
        summed(rank, size)
        dist.barrier()
        dist.destroy_process_group()
    dist.init_process_group(
        "nexar", store=dist.PrefixStore("again", store), rank=rank, world_size=size
    )


def test_groups_form_one_after_the_other_through_a_store_by_tcp(ranks: Any, tmp_path: Path) -> None:
    ranks(2, formed_by_tcp, str(tmp_path / "port"))


def kept(rank: int, size: int) -> str:
    dist.destroy_process_group()
    stored = dist.HashStore()
    dist.init_process_group("nexar", store=stored, rank=0, world_size=1)
    keys = stored.list_keys()
    return " ".join(f"{key}={stored.get(key)!r}" for key in keys if "formations" not in key)


def test_the_store_keeps_no_token(ranks: Any) -> None:
    assert "nexar://" not in "".join(ranks(1, kept))


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def warned(rank: int, size: int, where: str, token: str) -> list[str]:
    dist.destroy_process_group()
    handler = Lines()
    logging.getLogger("torch.distributed.nexar").addHandler(handler)
    if token:
        os.environ["NEXAR_TOKEN"] = token
    dist.init_process_group("nexar", init_method=f"file://{where}", rank=rank, world_size=size)
    summed(rank, size)
    return handler.lines


def test_a_token_in_the_store_causes_one_warning(ranks: Any, tmp_path: Path) -> None:
    lines = ranks(2, warned, str(tmp_path / "second"), "")
    assert len(lines[0]) == 1 and "eavesdropper" in lines[0][0], lines
    assert lines[1] == []


def test_a_token_of_the_user_stays_out_of_the_store(ranks: Any, tmp_path: Path) -> None:
    lines = ranks(2, warned, str(tmp_path / "second"), secrets.token_urlsafe(32))
    assert lines == [[], []]


def test_torch_finds_the_backend_by_its_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "nexar-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nexar\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[torch.backends]\nnexar = nexar._torch_entry:autoload\n"
    )
    program = (
        "import torch.distributed as dist\n"
        f"dist.init_process_group('nexar', init_method='file://{tmp_path}/s', rank=0, world_size=1)\n"
        "dist.barrier(); print(dist.get_backend()); dist.destroy_process_group()"
    )
    environment = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "nexar", done.stderr
