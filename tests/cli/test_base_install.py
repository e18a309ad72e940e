"""On a base install (torch, typer, rich and what they need) every command runs or names its extra."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gradaccord
from gradaccord.cli.exit_codes import EXTRAS

SOURCE = Path(gradaccord.__file__).parents[1]
BASE = ("torch", "typer", "rich")


def needed(names):
    """These distributions and all that they need, without extras."""
    found, waiting = {}, list(names)
    while waiting:
        name = waiting.pop()
        if name.lower() in found:
            continue
        try:
            own = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of another platform
            continue
        found[name.lower()] = own
        for text in own.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found.values()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder that holds a base install and nothing else, as links."""
    folder = tmp_path_factory.mktemp("base")
    for one in needed(BASE):
        for top in {Path(file).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            place = Path(str(one.locate_file(top)))
            if place.exists() and not (folder / top).exists():
                (folder / top).symlink_to(place)
    return folder


@pytest.fixture
def call(base, tmp_path):
    """The command line there. -S leaves out all other packages of this Python."""

    def called(*arguments):
        ran = subprocess.run(
            [sys.executable, "-S", "-m", "gradaccord", *map(str, arguments)],
            env={"PYTHONPATH": f"{SOURCE}:{base}", "OMP_NUM_THREADS": "1", "COLUMNS": "300"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    return called


def test_the_install_is_really_a_base_one(base):
    code = "import importlib.util as u; print([m for m in ('torch','yaml','numpy','scipy',"
    code += "'transformers','matplotlib','optuna','babel','accelerate') if u.find_spec(m)])"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{SOURCE}:{base}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "['torch']"


COMMANDS = {
    "train x.yaml": "train",
    "pretrain x.yaml": "train",
    "validate x.yaml": "train",
    "advise x.yaml": "train",
    "compare x.yaml": "train",
    "sweep x.yaml train.lr=1..2": "sweep,train",
    "report .": "report,train",
    "export .": "train",
    "predict . text": "train",
    "demo": "demo,report,train",
    "landscape": "report",
    "fewshot train": "report",
    "fewshot figures .": "report",
}
WORKING = ["--help", "--version", "doctor", "list recipes", "init classification", "fewshot presets"]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_names_the_extra_that_it_needs(call, line):
    ran = call(*line.split())
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert ran.stderr.startswith("gradaccord: ")
    assert ran.stderr.count("\n") == 1
    assert f"pip install 'gradaccord[{COMMANDS[line]}]'" in ran.stderr
    assert "No module named" not in ran.stderr


@pytest.mark.parametrize("line", ["list methods", "list schema", "list data", "list tasks"])
def test_a_listing_runs_or_names_the_extra(call, line):
    """pydantic comes with some versions of typer."""
    ran = call(*line.split())
    assert ran.returncode == 0 or "pip install 'gradaccord[train]'" in ran.stderr


def test_the_extras_are_those_of_the_package():
    """Every module stands in the extra that installs it; `train` brings that of Hugging Face along."""
    where = metadata.packages_distributions()
    listed = {}
    for text in metadata.requires("gradaccord"):
        requirement = Requirement(text)
        for extra in (*EXTRAS, "hf", "lora"):
            if requirement.marker and requirement.marker.evaluate({"extra": extra}):
                listed.setdefault(extra, set()).add(canonicalize_name(requirement.name))
    # numpy comes with scikit-learn; `hf` brings `lora` along.
    listed["train"] |= listed["hf"] | listed.get("lora", set()) | {"numpy"}
    for extra, modules in EXTRAS.items():
        for module in modules:
            owners = {canonicalize_name(name) for name in where[module]}
            assert owners & listed[extra], (extra, module)
    for extra in set(EXTRAS) - {"train", "torchjd"}:
        assert len(listed[extra]) == len(EXTRAS[extra])


@pytest.mark.parametrize("line", WORKING)
def test_what_needs_no_extra_runs(call, line):
    ran = call(*line.split())
    assert ran.returncode == 0, ran.stderr
