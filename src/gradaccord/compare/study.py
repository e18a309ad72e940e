"""Where the Optuna study of a sweep is stored: in its folder, or in a database."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from gradaccord.runs.files import RunFolderError

STORAGE = "sweep.db"  # of one command at a time; a copy, if the study is in a database elsewhere
JOURNAL = "sweep.journal"  # of commands on several machines
NAME = ".study"  # holds the name of the study in a database elsewhere
STUDY = "gradaccord"


def open_study(folder: Path, storage: str | None = None) -> Any:
    """The study in the folder, a new one if there is none.

    storage: `journal`, or the address of a database (`postgresql://...`), for several commands at a
    time; None: for one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check_storage(folder, storage)
    name = STUDY if storage in (None, "journal") else _name(folder)
    return _opened(
        folder, storage, "create_study", study_name=name, direction="maximize", load_if_exists=True
    )


def read_study(folder: Path) -> Any:
    """The Optuna study that a sweep left in its folder."""
    storage = "journal" if (folder / JOURNAL).exists() else None
    return _opened(folder, storage, "load_study", study_name=STUDY)


def has_study(folder: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (folder / STORAGE).exists() or (folder / JOURNAL).exists()


def file_of(folder: Path, storage: str | None) -> Path:
    """What a study can be read from when its sweep is over."""
    return folder / (JOURNAL if storage == "journal" else STORAGE)


def keep_copy(study: Any, folder: Path) -> None:
    """Copy a study in a database elsewhere into the folder, for `gradaccord report`."""
    import optuna

    copy = folder / f".{secrets.token_hex(4)}.db"
    to = optuna.storages.RDBStorage(f"sqlite:///{STORAGE}", _connecting(copy))
    optuna.copy_study(
        from_study_name=study.study_name, from_storage=study._storage, to_storage=to,
        to_study_name=STUDY,
    )  # fmt: skip
    to.remove_session()
    to.engine.dispose()
    os.replace(copy, folder / STORAGE)


def without_password(word: str) -> str:
    """A word of the command line, without its password, to be recorded."""
    return re.sub(r"(://[^:/@]*):[^/]*@", r"\1:***@", word)


def full(path: Path, error: BaseException) -> RunFolderError:
    """The error about a study that cannot be written."""
    why = str(getattr(error, "orig", None) or error).splitlines()[0]
    return RunFolderError(f"{path} cannot be written ({why}): make room, and repeat the command.")


def _check_storage(folder: Path, storage: str | None) -> None:
    """Refuse a storage other than that of the sweep in the folder."""
    if storage is not None and storage != "journal" and "://" not in storage:
        raise ValueError(
            f"--storage is {storage!r}: write journal, or the address of a database, such as "
            "postgresql://USER@HOST/NAME."
        )
    if (folder / NAME).exists():
        kept, remedy = "database", "give its address as --storage"
    elif (folder / JOURNAL).exists():
        kept, remedy = "journal", "add --storage journal"
    elif (folder / STORAGE).exists():
        kept, remedy = "file", "leave --storage out"
    else:
        return
    if kept != {None: "file", "journal": "journal"}.get(storage, "database"):
        raise ValueError(
            f"{folder} holds a sweep that is kept in a {kept}: {remedy}, or choose another --out."
        )


def _name(folder: Path) -> str:
    """The study's name in a database, where others are: chosen once for a folder."""
    try:
        with (folder / NAME).open("x") as file:
            file.write(f"{STUDY}-{folder.resolve().name}-{secrets.token_hex(4)}")
    except FileExistsError:
        pass
    return (folder / NAME).read_text()


def _opened(folder: Path, storage: str | None, how: str, **options: Any) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = file_of(folder, storage)
    elsewhere = storage not in (None, "journal")
    try:
        study = getattr(optuna, how)(storage=_storage(path, storage), **options)
        study.get_trials()  # also of a file that is damaged further on
    except Exception as error:
        why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
        if elsewhere:
            raise ValueError(f"--storage cannot be opened ({why}): check the address.") from error
        if isinstance(error, SQLAlchemyError) and _is_full(error):
            raise full(path, error) from error
        raise ValueError(
            f"{path} holds no sweep, or is damaged: remove it, or choose another --out."
        ) from error
    return study


def _storage(path: Path, storage: str | None) -> Any:
    import optuna

    if storage is None:
        return optuna.storages.RDBStorage(f"sqlite:///{STORAGE}", _connecting(path))
    if storage == "journal":
        from optuna.storages.journal import JournalFileBackend

        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    return optuna.storages.RDBStorage(storage)


def _connecting(path: Path) -> dict[str, Any]:
    """How SQLite opens a file of any name: some names cannot be in an address."""
    return {"creator": partial(sqlite3.connect, path, check_same_thread=False)}


def _is_full(error: BaseException) -> bool:
    return "full" in str(error)  # in SQLite's words, a database or disk is
