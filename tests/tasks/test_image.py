"""Classes of images: real clothes learned by heart, crops that a replay repeats, networks that save."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gradaccord.core.replay import RandomState
from gradaccord.data.images.labelled import Images
from gradaccord.data.images.published import load
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.images import Conv4Trunk
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks import saved_models as saved
from gradaccord.tasks.evaluation import evaluate, predict
from gradaccord.tasks.kinds.image import ImageClassification, augmented
from gradaccord.tasks.registry import build, options

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "fashion_mnist"


TASK = ImageClassification(("a", "b", "c", "d"))


def made(count: int = 16, size: int = 32, channels: int = 3) -> Images:
    """Four classes, told apart by where the bright corner is."""
    torch.manual_seed(0)
    images = torch.randint(0, 60, (count, channels, size, size), dtype=torch.uint8)
    labels = torch.arange(count) % 4
    half = size // 2
    for image, label in zip(images, labels.tolist(), strict=True):
        y, x = divmod(label, 2)
        image[:, y * half : (y + 1) * half, x * half : (x + 1) * half] += 120
    return Images(images, labels)


def trained(task, trunk, tokens, images, steps=20, lr=1e-3):
    model = MultiTaskModel(trunk, {"clothes": task.new_head(trunk)}).train()
    encoded = task.encode(images, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        batch = encoded.batch(range(len(images)))
        loss, items = task.loss(model("clothes", batch), batch)
        assert items == len(images)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():  # so few steps leave batch norm's running statistics behind
        for _ in range(2 * steps):
            model("clothes", batch)
    return model, encoded


@pytest.mark.parametrize(
    ("name", "shape"), [("resnet18", {"channels": 1}), ("conv4", {"channels": 1, "filters": 32})]
)
def test_learns_32_real_images_by_heart(name, shape):
    if not SHARED.exists():
        pytest.skip("the shared Fashion-MNIST is not here")
    dataset = load("fashion-mnist", SHARED)
    images = dataset.split("train")[:32]
    task = build("image", labels=dataset.labels, **dataset.options)
    torch.manual_seed(0)
    trunk, tokens = load_trunk(name, **shape)
    model, encoded = trained(task, trunk, tokens, images, lr=3e-3 if name == "conv4" else 1e-3)
    assert evaluate(model, "clothes", task, images, encoded).scores["accuracy"] == 100


def test_learns_made_images_with_crops_and_flips():
    task = ImageClassification(("top", "bottom"), crop=2, flip=True, head="hidden")
    images = made(16)
    images = Images(images.images, images.labels // 2)
    torch.manual_seed(0)
    trunk, tokens = load_trunk("conv4", channels=3, size=32, filters=16)
    model, encoded = trained(task, trunk, tokens, images, steps=40)
    assert evaluate(model, "clothes", task, images, encoded).scores == {"accuracy": 100.0, "f1": 100.0}


TRUNKS = [
    ("resnet18", {"channels": 3, "small": True}),
    ("resnet18", {"channels": 3}),
    ("conv4", {"channels": 3, "size": 32, "filters": 8, "see": "mean"}),
    ("conv4", {"channels": 3, "size": 32, "filters": 8}),
]


@pytest.mark.parametrize(("name", "shape"), TRUNKS)
def test_predictions_do_not_change_with_the_batch(name, shape):
    images = made(8)
    torch.manual_seed(0)
    trunk, tokens = load_trunk(name, **shape)
    model, encoded = trained(TASK, trunk, tokens, images, steps=2)
    _, together = predict(model, "clothes", TASK, images, encoded, batch_size=8)
    _, alone = predict(model, "clothes", TASK, images, encoded, batch_size=1)
    assert torch.allclose(torch.stack(together), torch.stack(alone), atol=1e-5)


@pytest.mark.parametrize(("name", "shape"), TRUNKS)
def test_saved_and_loaded_bit_by_bit(name, shape, tmp_path):
    images = made(4)
    trunk, tokens = load_trunk(name, **shape)
    model, encoded = trained(TASK, trunk, tokens, images, steps=1)
    saved.save(tmp_path / "saved", model, tokens, {"clothes": TASK})
    again, _, tasks = saved.load(tmp_path / "saved")
    assert tasks == {"clothes": TASK}
    batch = encoded.batch(range(4))
    with torch.no_grad():
        assert torch.equal(model.eval()("clothes", batch), again("clothes", batch))


class TestAugmentation:
    images = made(64).images

    def test_repeats_under_replay(self):
        state = RandomState.capture()
        first = augmented(self.images, 4, True)
        with state.replayed():
            assert torch.equal(augmented(self.images, 4, True), first)
        assert not torch.equal(augmented(self.images, 4, True), first)

    def test_every_image_is_a_cut_of_itself(self):
        torch.manual_seed(0)
        cut = augmented(self.images, 2, True)
        padded = torch.nn.functional.pad(self.images, (2, 2, 2, 2))
        seen = set()
        for image, whole in zip(cut, padded, strict=True):
            found = [
                (y, x, turned)
                for y in range(5)
                for x in range(5)
                for turned in (False, True)
                if torch.equal(image.flip(-1) if turned else image, whole[:, y : y + 32, x : x + 32])
            ]
            assert len(found) == 1
            seen |= set(found)
        assert len(seen) > 20

    def test_only_in_training(self):
        task = ImageClassification(("a", "b", "c", "d"), crop=4, flip=True)
        trunk, tokens = load_trunk("conv4", channels=3, size=32, filters=8)
        model = MultiTaskModel(trunk, {"x": task.new_head(trunk)}).eval()
        batch = task.encode(made(4), tokens).batch(range(4))
        assert torch.equal(model("x", batch), model("x", batch))


def test_images_are_resized_to_one_size_for_networks_that_tasks_share():
    task = ImageClassification(("a", "b", "c", "d"), size=8)
    encoded = task.encode(made(4, size=20), load_trunk("conv4")[1])
    images = encoded.batch(range(4))["image"]
    assert images.shape == (4, 3, 8, 8)
    assert images.dtype == torch.uint8
    corners = images.float().view(4, 3, 2, 4, 2, 4).mean((1, 3, 5)).flatten(1)
    assert corners.argmax(1).tolist() == [0, 1, 2, 3]  # the bright one is where it was
    with pytest.raises(ValueError, match="`size` is 0: it must be a whole number >= 1"):
        ImageClassification(("a",), size=0)


def test_scores():
    images = made(8)
    gold = [TASK.gold(picture) for picture in images]
    assert TASK.score(images, gold) == {"accuracy": 100.0, "f1": 100.0}
    assert TASK.score(images, gold[1:] + gold[:1]) == {"accuracy": 0.0, "f1": 0.0}
    with pytest.raises(ValueError, match="no example"):
        TASK.score(images[:0], [])
    with pytest.raises(ValueError, match="0 predictions for 8"):
        TASK.score(images, [])


def test_options_there_and_back():
    task = ImageClassification(("a", "b"), (0.1, 0.2, 0.3), (1.0, 1.0, 1.0), 4, True)
    assert build("image", **options(task)) == task


class TestRefusals:
    def test_label_out_of_range(self):
        images = made(4)
        with pytest.raises(ValueError, match=r"Image 3 has the label 3: it must be one of 0..2"):
            ImageClassification(("a", "b", "c")).encode(images, load_trunk("conv4")[1])

    def test_text_for_an_image_network(self):
        with pytest.raises(ValueError, match="reads images and the task gives text"):
            load_trunk("conv4")[1].encode(["text"], max_length=9)

    def test_text_trunk_for_images(self, tmp_path):
        from small_models import save_checkpoint

        trunk, _ = load_trunk(save_checkpoint(tmp_path, "bert"))
        with pytest.raises(ValueError, match="choose 'resnet18' or 'conv4'"):
            TASK.new_head(trunk)

    def test_channels_and_size(self):
        with pytest.raises(ValueError, match="build it with channels=3"):
            Conv4Trunk(1, 32)({"image": torch.zeros(1, 3, 32, 32)})
        with pytest.raises(ValueError, match="build it with size=28"):
            Conv4Trunk(1, 32)({"image": torch.zeros(1, 1, 28, 28)})

    def test_options(self):
        with pytest.raises(ValueError, match="`std` is"):
            ImageClassification(("a",), std=(0.0,))
        with pytest.raises(ValueError, match="conv4 has no option 'colour': it has channels, size"):
            load_trunk("conv4", colour=3)
        with pytest.raises(ValueError, match="2 values and the images 3 channels"):
            ImageClassification(("a",) * 4, (0.1, 0.1), (1.0, 1.0)).encode(
                made(4), load_trunk("conv4")[1]
            )

    def test_conv4_folder_cut_off(self, tmp_path):
        load_trunk("conv4", filters=4)[0].save(tmp_path)
        (tmp_path / "model.safetensors").write_bytes(b"123")
        with pytest.raises(ValueError, match="model.safetensors cannot be read"):
            load_trunk(tmp_path)
