"""One step of training, the same for all peers."""

from __future__ import annotations

from typing import Any

import torch

from peer import LEARNING_RATE


class Trainer:
    """Takes steps of Adam on the cross-entropy of a model's scores.

    `precision` bf16 is torch's autocast: products are of bfloat16, parameters and
    sums of float32.
    """

    def __init__(self, model: torch.nn.Module, precision: str) -> None:
        self._model = model
        self._optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        self._bf16 = precision == "bf16"

    def step(self, labels: torch.Tensor, *inputs: Any) -> float:
        """Returns the loss. The model is called with `inputs`."""
        self._optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            scores = self._model(*inputs)
        loss = torch.nn.functional.cross_entropy(scores.float(), labels)
        loss.backward()
        self._optimizer.step()
        return loss.item()
