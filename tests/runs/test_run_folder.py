"""The folder of a run that is there already."""

import pytest

from gradaccord.runs.files import RunFolderError


def test_a_folder_with_a_run_is_not_overwritten(configured, run):
    config = configured(train={"steps": 2})
    results = run(config)
    with pytest.raises(RunFolderError, match="holds a finished run: continue it with --resume"):
        run(config)
    said = []
    assert run(config, resume=True, say=said.append) == results
    assert "nothing to do" in said[0]
    with pytest.raises(RunFolderError, match="started with another `train`"):
        run(configured(train={"steps": 3}), resume=True)
