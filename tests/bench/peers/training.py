"""One step of training, the same for all peers."""

from __future__ import annotations

from typing import Any

import torch

from peer import LEARNING_RATE


class Trainer:
    """Takes steps of Adam on the cross-entropy of a model's scores.

    `precision` bf16 is torch's autocast: products are of bfloat16, parameters and
    sums of float32. Inputs are on `device`, where the model goes.
    """

    def __init__(self, model: torch.nn.Module, precision: str, device: str = "cpu",
                 distributed: bool = False) -> None:
        """`distributed`: the processes of torch.distributed take each step together."""
        self._device = device
        self._model = model.to(device)
        if distributed:
            self._model = torch.nn.parallel.DistributedDataParallel(self._model)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        self._bf16 = precision == "bf16"

    def step(self, labels: torch.Tensor, *inputs: Any) -> torch.Tensor:
        """Returns the loss; on a GPU, before it is known. The model is called with `inputs`."""
        self._optimizer.zero_grad()
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bf16):
            scores = self._model(*inputs)
        loss = torch.nn.functional.cross_entropy(scores.float(), labels)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def wait(self) -> None:
        """Returns when all steps have been taken."""
        if self._device != "cpu":
            torch.cuda.synchronize()
