"""The wheel as a user gets it: installed into a clean environment, run from an empty folder.

The environment sees this one's packages (torch and the like) through a .pth file, so that nothing is
downloaded; gradaccord itself comes from the wheel alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from gradaccord.version import __version__

pytest.importorskip("build")
pytest.importorskip("hatchling")

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gradaccord"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Both archives, made as `make dist` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    call([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (found,) = dist.glob(f"gradaccord-{__version__}-py3-none-any.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of the commands of a clean environment, in which the wheel is."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home / "env", with_pip=False)
    python = home / "env" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
    ]
    call([*install, str(wheel)], home)
    (packages,) = (home / "env" / "lib").glob("python*/site-packages")
    # A line of a .pth file adds a folder, and not what stands in its own .pth files: an editable
    # install of gradaccord stays out.
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    return python.parent


def call(command, folder):
    """Run it without what would lead to the source tree; gives what it printed."""
    hidden = ("PYTHONPATH", "GRADACCORD_DATA", "VIRTUAL_ENV")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    env |= {"COLUMNS": "80", "OMP_NUM_THREADS": "1", "GRADACCORD_CACHE": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package(wheel):
    """YAML recipes and entries, the page's template, style and script, and the mark of typed code."""
    expected = {
        f"gradaccord/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected <= names
    assert {"yaml", "j2", "css", "js", "typed"} <= {name.rpartition(".")[2] for name in expected}
    outside = {name for name in names if not name.startswith("gradaccord/")}
    assert all(name.startswith(f"gradaccord-{__version__}.dist-info/") for name in outside)


def test_the_source_archive_can_be_tested_and_built(dist):
    (archive,) = dist.glob(f"gradaccord-{__version__}.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    wanted = ("pyproject.toml", "Makefile", "constraints.txt", "LICENSE", "README.md", "CITATION.cff")
    for name in (*wanted, "tests/test_dist.py", "tests/support/toy.py", "examples/fewshot_lora.py"):
        assert name in names
    assert not any("__pycache__" in name or name.startswith(("runs/", ".venv")) for name in names)


def test_the_command_line_of_the_wheel(installed, tmp_path):
    where = call(
        [installed / "python", "-c", "import gradaccord; print(gradaccord.__file__)"], tmp_path
    )
    assert where.startswith(str(installed.parent))
    gradaccord = installed / "gradaccord"
    assert call([gradaccord, "--version"], tmp_path) == f"gradaccord {__version__}\n"
    assert "advise" in call([gradaccord, "--help"], tmp_path)
    assert "minbert-trio" in call([gradaccord, "list", "recipes"], tmp_path)
    assert "minbert-table-2" in call([gradaccord, "reproduce"], tmp_path)


def test_a_recipe_of_the_wheel_trains_and_reports(installed, tmp_path):
    gradaccord = installed / "gradaccord"
    short = ["model.pretrained=false", "train.gradients=24", "probe.masked_lm={}", "method=pcgrad"]
    once = ["train.evaluate_every=1.0", "train.save_every=1.0", "probe.cosine=false", "probe.errors=1"]
    call([gradaccord, "train", "cldr", *short, *once], tmp_path)
    assert (tmp_path / "runs" / "cldr" / "results.json").is_file()
    call([gradaccord, "report", "runs/cldr"], tmp_path)
    assert "<html" in (tmp_path / "runs" / "cldr" / "report.html").read_text()


def test_an_example_runs_with_the_wheel(installed, tmp_path):
    shown = call([installed / "python", ROOT / "examples" / "fewshot_lora.py"], tmp_path)
    assert "MAML" in shown
