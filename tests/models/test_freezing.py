"""Parts of trunks by name, and that what is frozen stays as it is and costs nothing."""

import pytest
import torch
from small_models import ARCHITECTURES, save_checkpoint

from gradaccord.data.images.labelled import Picture
from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.freezing import Parts, freeze, modules_of
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks import build


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_of_an_encoder_belongs_to_one_part(architecture, tmp_path):
    trunk, _ = load_trunk(save_checkpoint(tmp_path, architecture))
    parts = Parts.of(trunk)
    assert list(parts.stacks) == ["layers"]
    assert len(parts.stacks["layers"]) == 2
    assert str(parts).startswith("embeddings, layers 0-1")
    found = {name: [] for name, _ in trunk.named_parameters()}
    for part in ("layers", *parts.others):
        for module in modules_of(trunk, [part]):
            for name in found:
                inside = part == "layers" and name.startswith(f"{module}.")
                if inside or name.rpartition(".")[0] == module:
                    found[name].append(part)
    assert all(len(parts) == 1 for parts in found.values()), found
    freeze(trunk, modules_of(trunk, ["embeddings"]))
    assert not trunk.model.get_input_embeddings().weight.requires_grad
    assert any(p.requires_grad for p in trunk.parameters())
    freeze(trunk, modules_of(trunk, ["trunk"]))
    assert not any(p.requires_grad for p in trunk.parameters())


@pytest.mark.parametrize("architecture", ["bart", "t5"])
def test_an_encoder_decoder_has_two_stacks(architecture, tmp_path):
    trunk, _ = load_trunk(save_checkpoint(tmp_path, architecture, head=True), decoder=True)
    stacks = Parts.of(trunk).stacks
    assert list(stacks) == ["encoder layers", "decoder layers"]
    freeze(trunk, modules_of(trunk, ["encoder layers", "decoder layer 1"]))
    frozen = [*stacks["encoder layers"], stacks["decoder layers"][1]]
    for name, parameter in trunk.named_parameters():
        assert parameter.requires_grad != name.startswith(tuple(f"{module}." for module in frozen))


def test_ranges_have_both_ends_and_spaces_do_not_matter():
    trunk = CharacterTrunk(20, width=8, depth=4)
    blocks = [f"encoder.blocks.{i}" for i in range(4)]
    assert modules_of(trunk, ["layers 0-2"]) == blocks[:3]
    assert modules_of(trunk, ["layers  1 - 2", "layer 3"]) == blocks[1:]
    assert modules_of(trunk, ["layers"]) == blocks
    assert modules_of(trunk, ["embeddings"]) == ["encoder.embedding"]


@pytest.mark.parametrize("wrong", ["layers 0-4", "layer 9", "layers 2-1", "pooler", "embedings", "1"])
def test_an_unknown_part_is_answered_with_those_there_are(wrong):
    with pytest.raises(ValueError) as caught:
        modules_of(CharacterTrunk(20, width=8, depth=4), [wrong])
    assert str(caught.value) == (
        f"`model.freeze` names {wrong!r}: the parts of this model are embeddings, layers 0-3, trunk."
    )


@pytest.mark.parametrize(
    ("name", "options"), [("resnet18", {"small": True, "width": 4}), ("conv4", {})]
)
def test_frozen_batch_norms_keep_their_statistics(name, options):
    trunk, tokens = load_trunk(name, channels=1, **options)
    layers = Parts.of(trunk).stacks["layers"]
    assert len(layers) == 4
    embeddings = ["embeddings"] if name == "resnet18" else []
    freeze(trunk, modules_of(trunk, [*embeddings, "layers 0-1"]))
    before = {key: value.clone() for key, value in trunk.state_dict().items()}
    pictures = [Picture(torch.randint(255, (1, 28, 28), dtype=torch.uint8), 0) for _ in range(4)]
    batch = build("image", labels=["a", "b"]).encode(pictures, tokens).batch(range(4))
    trunk.train()(batch)
    trunk.eval().train()(batch)
    changed = {key for key, value in trunk.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(key.startswith((f"{layers[2]}.", f"{layers[3]}.")) for key in changed)
