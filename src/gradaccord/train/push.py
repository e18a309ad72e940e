"""`gradaccord export --push`: an exported folder, with its card, as a model on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradaccord.data.files.bad_files import reason


def check_push(repo: str) -> None:
    """Refuse an invalid name or a missing token before anything is written."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ValueError(
            f"`--push` is {repo!r}, which is not the name of a repository: give USER/NAME."
        ) from error
    if get_token() is None:
        raise ValueError(
            f"`--push` is {repo!r}, and there is no token of the Hugging Face hub here: run `hf auth "
            "login` or set HF_TOKEN."
        )


def push(folder: Path, repo: str, private: bool = False) -> str:
    """Upload the folder in one commit, into a new or an existing repository; returns its address.

    private: only you see it; an existing repository that is public is refused.
    """
    from huggingface_hub import HfApi

    check_push(repo)
    api: Any = HfApi(library_name="gradaccord")
    with _one_sentence(repo, folder):
        made = api.create_repo(repo, private=True if private else None, exist_ok=True)
        public = not api.model_info(made.repo_id).private
    if private and public:
        raise ValueError(
            f"`--private` is given and {made.repo_id} exists and is public: give another name to "
            "--push, or make it private on the hub."
        )
    with _one_sentence(repo, folder):
        api.upload_folder(
            repo_id=made.repo_id, folder_path=folder, commit_message="Upload a model by gradaccord"
        )
    return str(made)


@contextmanager
def _one_sentence(repo: str, folder: Path) -> Iterator[None]:
    """The hub's refusals and a network that fails."""
    try:
        yield
    except Exception as error:  # what carries the hub's requests has kinds of its own
        status = getattr(getattr(error, "response", None), "status_code", None)
        remedy = "try again"
        if status in (401, 403):
            remedy = "log in with a token that may write there (`hf auth login`)"
        elif status == 404:
            remedy = "check the name and the token"
        raise ValueError(
            f"{repo} was not pushed ({reason(error)}): {remedy}; the model is in {folder}."
        ) from error
