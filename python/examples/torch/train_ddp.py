"""train_ddp.py [BACKEND] - trains a small transformer by DistributedDataParallel on made data.

    torchrun --nproc-per-node 4 train_ddp.py          # nexar
    torchrun --nproc-per-node 4 train_ddp.py gloo     # the same losses

Each sequence counts upwards from a random number; the model learns to continue it."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import nexar.torch  # not needed where nexar is installed by pip

WORDS, LENGTH, WIDTH = 32, 16, 32


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.next_word = nn.Linear(WIDTH, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.next_word(self.layers(self.words(text) + self.places, mask=mask))


def train(steps: int) -> list[float]:
    """Returns the average loss over all ranks, step by step."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    made = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(steps):
        first = torch.randint(WORDS, (8, 1), generator=made)
        text = (first + torch.arange(LENGTH + 1)) % WORDS
        logits = model(text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average = loss.detach().clone()
        dist.all_reduce(average)
        losses.append(average.item() / dist.get_world_size())
    return losses


if __name__ == "__main__":
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nexar")
    for step, loss in enumerate(train(60)):
        if step % 10 == 9 and dist.get_rank() == 0:
            print(f"step {step + 1}: loss {loss:.6f}")
    dist.destroy_process_group()
