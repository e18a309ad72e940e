"""The public names, and how little importing them takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gradaccord


def test_importing_the_package_imports_torch_at_most():
    code = (
        "import sys, gradaccord; [getattr(gradaccord, n) for n in gradaccord.__all__];"
        "heavy = {'transformers', 'matplotlib', 'typer', 'rich', 'accelerate', 'torchjd', 'numpy.f2py',"
        "'babel', 'sklearn', 'torch.distributed.tensor', 'lightning_fabric'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_listed_once_and_found():
    for name in gradaccord.__all__:
        assert getattr(gradaccord, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PCgrad'"):
        gradaccord.PCgrad  # noqa: B018
