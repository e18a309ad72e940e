"""Network and learner of every algorithm and preset."""

from __future__ import annotations

import torch

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.algorithms import ALGORITHMS, SHARE
from gradaccord.meta.build import build_learner, build_network
from gradaccord.meta.presets import PRESETS
from gradaccord.meta.settings import settings_for


def test_every_algorithm_and_preset_can_be_built():
    images = torch.zeros(2, 1, 16, 16, dtype=torch.uint8)
    classes = ImageClasses(images, torch.tensor([0, 1]), ("a", "b"))
    for algorithm in ALGORITHMS:
        for share in (False, True) if algorithm in SHARE else (False,):
            settings = settings_for(algorithm, share=share, filters=4)
            learner = build_learner(settings, build_network(settings, classes))
            assert sum(p.numel() for p in learner.parameters()) > 0
    for preset in PRESETS.values():
        settings = settings_for(preset.algorithm, preset=preset.name)
        build_network(settings, classes)
        assert "mean" in preset.loss_scale
        assert preset.source
