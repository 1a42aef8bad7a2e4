"""Training by DDP and FSDP gives the losses of Gloo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from nexar.torch import hooks

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "torch"))
import train_ddp  # noqa: E402


def small_model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def train(model: torch.nn.Module, rank: int, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        data = torch.randn(8, 16, generator=generator)
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")
    ours = train(DistributedDataParallel(small_model()), rank, 20)
    gloos = train(DistributedDataParallel(small_model(), process_group=gloo), rank, 20)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(gloos), rtol=1e-4, atol=1e-5)
    assert sum(ours[-5:]) < sum(ours[:5])


def test_ddp_has_the_losses_of_gloo(ranks: Any) -> None:
    ranks(3, ddp)


def compressed(rank: int, size: int) -> None:
    plain = train(DistributedDataParallel(small_model()), rank, 40)
    for how in ("int8", "topk"):
        model = DistributedDataParallel(small_model())
        model.register_comm_hook(hooks.Compressed(how, ratio=0.25), hooks.compressed)
        losses = train(model, rank, 40)
        late, plains = sum(losses[-10:]), sum(plain[-10:])
        assert late < 2 * plains + 1, f"{how}: {late} and {plains}"
        sums = [parameter.detach().sum() for parameter in model.parameters()]
        for total in sums:
            lowest, highest = total.clone(), total.clone()
            dist.all_reduce(lowest, dist.ReduceOp.MIN)
            dist.all_reduce(highest, dist.ReduceOp.MAX)
            assert torch.equal(lowest, highest), how


def test_compressed_gradients_train_and_keep_the_ranks_equal(ranks: Any) -> None:
    ranks(2, compressed)


def sharded(rank: int, size: int) -> None:
    from torch.distributed.fsdp import fully_shard

    gloo = dist.new_group(backend="gloo")
    reference = train(DistributedDataParallel(small_model(), process_group=gloo), rank, 10)
    mesh = dist.init_device_mesh("cpu", (size,))
    model = small_model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = train(model, rank, 10)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), rtol=1e-3, atol=1e-4)


def test_fsdp2_has_the_losses_of_ddp_on_gloo(ranks: Any) -> None:
    ranks(2, sharded)


def functional(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as funcol

    mesh = dist.init_device_mesh("cpu", (size,))
    total = funcol.all_reduce(torch.ones(4), "sum", mesh)
    assert torch.equal(total + 0, torch.full((4,), float(size)))
    rows = funcol.all_gather_tensor(torch.full((2,), float(rank)), 0, mesh)
    assert torch.equal(rows + 0, torch.arange(float(size)).repeat_interleave(2))
    part = funcol.reduce_scatter_tensor(torch.arange(2.0 * size), "sum", 0, mesh)
    assert torch.equal(part + 0, size * torch.arange(2.0 * rank, 2.0 * rank + 2))


def test_functional_collectives_work_on_a_device_mesh(ranks: Any) -> None:
    ranks(2, functional)


def saved(rank: int, size: int, folder: str) -> None:
    import torch.distributed.checkpoint as checkpoint

    state = {"shared": torch.arange(4.0), "step": torch.tensor(7)}
    checkpoint.save(state, checkpoint_id=folder)
    loaded = {"shared": torch.zeros(4), "step": torch.tensor(0)}
    checkpoint.load(loaded, checkpoint_id=folder)
    assert torch.equal(loaded["shared"], state["shared"]) and loaded["step"] == 7


def test_a_checkpoint_is_saved_and_loaded(ranks: Any, tmp_path: Any) -> None:
    ranks(2, saved, str(tmp_path / "checkpoint"))


def example(rank: int, size: int) -> None:
    ours = train_ddp.train(12)
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("gloo", store), rank=rank, world_size=size
    )
    gloos = train_ddp.train(12)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(gloos), rtol=1e-4, atol=1e-5)
    assert ours[-1] < ours[0]


def test_the_example_has_the_same_losses_with_gloo(ranks: Any) -> None:
    ranks(2, example)
