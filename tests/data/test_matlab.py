"""`images.matlab`: arrays as scipy writes and reads them."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images import matlab

np = pytest.importorskip("numpy")
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
def test_numbers_of_every_type_as_scipy_writes_and_reads_them(tmp_path, compressed, dtype):
    scipy_io = pytest.importorskip("scipy.io")
    path = tmp_path / "a.mat"
    pixels = RANDOM.integers(0, 99, (2, 3, 4)).astype(dtype)
    values = {"X": pixels, "y": np.array([[7], [8]], dtype), "z": "text"}
    scipy_io.savemat(path, values, do_compression=compressed)
    found = matlab.arrays(path, ("X", "y"))
    oracle = scipy_io.loadmat(path)
    for name in ("X", "y"):
        assert found[name].dtype == torch.from_numpy(oracle[name]).dtype
        assert np.array_equal(found[name].numpy(), oracle[name])
    assert matlab.shapes(path) == {"X": (2, 3, 4), "y": (2, 1), "z": (1, 4)}


def test_a_file_that_is_cut_off_or_of_another_kind_is_refused(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    path = tmp_path / "a.mat"
    scipy_io.savemat(path, {"X": np.arange(50.0)})
    content = path.read_bytes()
    for wrong, why in ((content[:-80], "it ends too early"), (b"x" * 200, "not a MATLAB file")):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=f"a.mat.* cannot be read .*{why}"):
            matlab.arrays(path, ("X",))
