"""An exported model reaches the hub whole, with its card: a local server speaks its interface."""

import os
import subprocess
import sys

import pytest
from stand_in_hub import TOKEN, StandInHub


@pytest.fixture(scope="module")
def finished(configured, tmp_path_factory):
    from gradaccord.train.run import train_run

    folder = tmp_path_factory.mktemp("push") / "run"
    train_run(configured(train={"steps": 1}), folder)
    return folder


@pytest.fixture(scope="module")
def hub():
    with StandInHub() as running:
        yield running


@pytest.fixture
def export(finished, hub, tmp_path):
    """The command in a process of its own, as the hub's address is read at the start of one."""

    def called(*options, token=TOKEN, code=0, url=hub.url):
        given = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
        given |= {} if token is None else {"HF_TOKEN": token}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        out = ["--out", tmp_path / "out"]
        found = subprocess.run(
            [sys.executable, "-m", "gradaccord", "export", finished, *out, *options],
            env={**kept, **given, "COLUMNS": "200"}, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert found.returncode == code, found.stdout + found.stderr
        if code == 0:
            return found.stdout
        assert found.stderr.startswith("gradaccord: ")
        assert found.stderr.count("\n") == 1, found.stderr
        return found.stderr

    return called


def test_all_files_of_the_folder_arrive_with_the_card(export, hub, tmp_path):
    said = export("--push", "me/trio", "--private")
    assert f"Pushed: {hub.url}/me/trio" in said
    assert hub.private["me/trio"]
    there = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {"README.md", "model.safetensors", "config.json", "results.json"} <= there.keys()
    assert hub.files["me/trio"] == there
    assert hub.files["me/trio"]["README.md"].startswith(b"---\nlibrary_name: gradaccord")
    assert hub.commits[-1] == "Upload a model by gradaccord"


def test_a_private_model_is_not_put_into_a_public_repository(export, hub):
    hub.files["me/public"], hub.private["me/public"] = {}, False
    assert "me/public exists and is public" in export("--push", "me/public", "--private", code=2)
    assert hub.files["me/public"] == {}


def test_what_the_hub_refuses_is_one_sentence_and_the_folder_is_there(export, tmp_path):
    wrong = export("--push", "somebody-else/trio", code=2)
    assert "somebody-else/trio was not pushed" in wrong
    assert "log in with a token that may write there" in wrong
    assert (tmp_path / "out" / "README.md").is_file()


@pytest.mark.parametrize(
    ("options", "token", "sentence"),
    [
        (
            ["--push", "me/trio"],
            None,
            "there is no token of the Hugging Face hub here: run `hf auth login`",
        ),
        (["--push", "me/a/b"], TOKEN, "which is not the name of a repository: give USER/NAME"),
        (["--private"], TOKEN, "`--private` needs --push: give --push USER/NAME"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_written(options, token, sentence, export, tmp_path):
    assert sentence in export(*options, token=token, code=2)
    assert not (tmp_path / "out").exists()


def test_no_network_is_one_sentence(export):
    assert "me/trio was not pushed" in export("--push", "me/trio", url="http://127.0.0.1:9", code=2)
