"""Image networks as trunks: read by Hugging Face, small and grey images."""

from __future__ import annotations

import torch

from gradaccord.models.trunks.loading import load_trunk


def test_resnet_is_read_by_automodel_and_from_its_folder(tmp_path):
    from transformers import AutoModel

    trunk, _ = load_trunk("resnet18")
    trunk.eval().save(tmp_path)
    batch = {"image": torch.randn(2, 3, 64, 64)}
    theirs = AutoModel.from_pretrained(tmp_path).eval()
    again, _ = load_trunk(tmp_path)
    with torch.no_grad():
        pooled = theirs(batch["image"]).pooler_output.flatten(1)
        assert torch.allclose(trunk(batch).pooled, pooled, atol=1e-6)
        assert torch.equal(trunk(batch).pooled, again.eval()(batch).pooled)
    assert sum(p.numel() for p in trunk.parameters()) == 11_176_512


def test_small_images_keep_their_size_in_the_first_layers():
    image = {"image": torch.randn(1, 3, 32, 32)}
    assert load_trunk("resnet18", small=True)[0].eval()(image).tokens.shape == (1, 16, 512)
    assert load_trunk("resnet18")[0].eval()(image).tokens.shape == (1, 1, 512)


def test_a_narrow_resnet(tmp_path):
    trunk, _ = load_trunk("resnet18", small=True, width=8)
    image = {"image": torch.randn(1, 3, 32, 32)}
    assert trunk.hidden == 64
    trunk.eval().save(tmp_path)
    again, _ = load_trunk(tmp_path)
    assert torch.equal(trunk(image).pooled, again.eval()(image).pooled)


def test_grey_images_in_a_colour_network():
    trunk, _ = load_trunk("conv4", channels=3, size=32, filters=4)
    grey = torch.randn(2, 1, 32, 32)
    trunk.eval()
    assert torch.equal(trunk({"image": grey}).pooled, trunk({"image": grey.repeat(1, 3, 1, 1)}).pooled)
