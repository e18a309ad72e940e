"""Image networks as trunks: ResNet-18 of transformers, and Conv-4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch import nn

from gradaccord.data.encoded import Batch
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.trunks.conv4 import Conv4
from gradaccord.models.trunks.execution import checkpoint_blocks
from gradaccord.models.trunks.trunk import States, Trunk, save_own

CONV4 = "gradaccord-conv4"


class ImageTrunk(Trunk):
    """Base class: the batch's `image` is float [N, channels, height, width], normalised."""

    channels: int
    dropout = 0.0

    def images_of(self, batch: Batch) -> torch.Tensor:
        """The images with as many channels as the network takes; grey ones are repeated."""
        if "image" not in batch:
            raise ValueError(
                f"{type(self).__name__} reads images and the batch has none: give it some."
            )
        images = batch["image"]
        if images.shape[1] == 1 and self.channels > 1:
            images = images.expand(-1, self.channels, -1, -1)
        if images.shape[1] != self.channels:
            raise ValueError(
                f"The images have {images.shape[1]} channels and the network takes {self.channels}: "
                f"build it with channels={images.shape[1]}."
            )
        return images.to(next(self.parameters()).dtype)


class ResNetTrunk(ImageTrunk):
    """transformers' ResNet (He et al. 2016), its last feature map read as one state per position.

    small: for images of about 32 pixels, as is usual: the first convolution keeps their size and
    nothing is pooled before the first block. The weights are the same, so that Hugging Face reads them.
    """

    def __init__(self, model: Any, small: bool | None = None) -> None:
        super().__init__()
        self.model: Any = model
        small = bool(getattr(model.config, "small_images", False)) if small is None else small
        model.config.small_images = small
        if small:
            model.embedder.embedder.convolution.stride = (1, 1)
            model.embedder.pooler = nn.Identity()
        self.hidden = int(model.config.hidden_sizes[-1])
        self.channels = int(model.config.num_channels)

    @classmethod
    def resnet18(cls, channels: int = 3, small: bool = False, width: int = 64) -> ResNetTrunk:
        """Eighteen layers with fresh weights: 11.2 million, at `width` 16 (channels) 0.7 million."""
        import transformers

        config = transformers.ResNetConfig(
            num_channels=channels,
            embedding_size=width,
            hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
            depths=[2, 2, 2, 2],
            layer_type="basic",
        )
        new: Any = transformers.ResNetModel
        return cls(new(config), small)

    def forward(self, batch: Batch) -> States:
        """A state per position of the last feature map; pooled by their mean."""
        features: torch.Tensor = self.model(self.images_of(batch), return_dict=True).last_hidden_state
        states = features.flatten(2).transpose(1, 2)
        return States(states, states.new_ones(states.shape[:2]), "mean")

    def checkpoint(self) -> None:
        """Recompute each residual layer."""
        checkpoint_blocks(layer for stage in self.model.encoder.stages for layer in stage.layers)

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors."""
        from gradaccord.models.trunks.huggingface import quiet

        with quiet():
            self.model.save_pretrained(folder)


class Conv4Trunk(ImageTrunk):
    """Conv-4 without its last layer. Its batch norm keeps running statistics, unlike the few-shot one:
    so a prediction does not depend on the other images of its batch.

    see: all positions of the last feature map side by side ("flatten"), or their mean ("mean").
    """

    def __init__(
        self,
        channels: int = 1,
        size: int = 28,
        filters: int = 64,
        see: Literal["flatten", "mean"] = "flatten",
    ) -> None:
        super().__init__()
        self.shape = {"channels": channels, "size": size, "filters": filters, "see": see}
        self.channels, self.size = channels, size
        network = Conv4(1, channels, size, filters, downsample="pool", head=see)
        self.hidden = network.head.in_features
        network.head = nn.Identity()  # type: ignore[assignment]
        for block in network.blocks:
            block.norm = nn.BatchNorm2d(filters)
        self.network = network

    def forward(self, batch: Batch) -> States:
        """One state per image."""
        images = self.images_of(batch)
        if images.shape[-2:] != (self.size, self.size):
            raise ValueError(
                f"The images are {images.shape[-1]}x{images.shape[-2]} and the network takes "
                f"{self.size}x{self.size}: build it with size={images.shape[-1]}."
            )
        states: torch.Tensor = self.network(images).unsqueeze(1)
        return States(states, states.new_ones(states.shape[:2]), "mean")

    def checkpoint(self) -> None:
        """Recompute each block."""
        checkpoint_blocks(self.network.blocks)

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, which only this library reads."""
        save_own(self, folder, {"model_type": CONV4, **self.shape})


class NoTokens:
    """Stands where a tokenizer would, for networks that read no text."""

    pad = 0
    size = 0
    max_length = 0
    has_types = False
    reads_pairs = False
    fingerprint = "images"

    def encode(self, *texts: Any, **options: Any) -> NoReturn:
        """An error: there is nothing that could read text."""
        raise ValueError("The model reads images and the task gives text: choose another model.")

    encode_words = encode

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Nothing."""
        return ""

    def masking(self) -> MaskTokens:
        """The same error."""
        self.encode()

    def save(self, folder: Path) -> None:
        """There is nothing to write."""
