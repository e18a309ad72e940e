"""`images.labelled`: images as a sequence."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images.labelled import Images, Picture


def test_images_are_a_sequence():
    made = Images(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), torch.tensor([1, -1, 0]))
    assert [picture.label for picture in made] == [1, None, 0]
    assert isinstance(made[:2], Images)
    assert made.part([2, 0]).labels.tolist() == [0, 1]
    assert torch.equal(Images.of(list(made)).labels, made.labels)
    with pytest.raises(ValueError, match="2 labels for 3 images"):
        Images(made.images, made.labels[:2])
    with pytest.raises(ValueError, match="must be uint8"):
        Images(made.images.float(), made.labels)
    with pytest.raises(ValueError, match="2 different sizes"):
        Images.of([made[0], Picture(torch.zeros(1, 5, 5, dtype=torch.uint8), 0)])
