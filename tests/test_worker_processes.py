import os
import sys
from importlib.util import find_spec

import pytest

from rareswitch.compute.local import local_pool, portable


def test_the_pool_gives_the_environment_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with local_pool(1):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    with pytest.raises(ZeroDivisionError), local_pool(1):
        raise ZeroDivisionError
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_workers_import_from_the_current_folder_if_this_process_does(tmp_path, monkeypatch):
    (tmp_path / "module_of_the_moment.py").write_text("ANSWER = 42\n")
    monkeypatch.chdir(tmp_path)
    for paths, found in ((["", *sys.path], True), ([p for p in sys.path if p], False)):
        monkeypatch.setattr(sys, "path", paths)
        with local_pool(1) as pool:
            spec = pool.submit(find_spec, "module_of_the_moment").result()
        assert (spec is not None) is found


class TwoArgumentsError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class TwoValuesError(TwoArgumentsError, ValueError):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ValueError("plain"), ValueError, "plain"),
        (ZeroDivisionError("plain"), ZeroDivisionError, "plain"),
        (TwoValuesError("a", "b"), ValueError, "a and b"),
        (TwoArgumentsError("a", "b"), RuntimeError, "TwoArgumentsError: a and b"),
        (OSError(lambda: 0), RuntimeError, "OSError: "),
    ],
)
def test_an_error_that_cannot_travel_is_told_by_one_that_can(error, kind, said):
    found = portable(error)
    assert type(found) is kind
    assert said in str(found)
    assert (found is error) is (said == "plain")
