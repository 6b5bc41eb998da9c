import os

import pytest

from rareswitch.experiments.pool import local_pool


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
