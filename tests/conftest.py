"""Shared by all tests: this folder is on sys.path (c_programs.py); the reference data and the real models, or a reason to skip."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def reference():
    """The folder of reference data that KIPU_REFERENCE names; tests over the whole data skip without it."""
    folder = os.environ.get("KIPU_REFERENCE")
    if not folder:
        pytest.skip("KIPU_REFERENCE is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def real_model():
    """A function: name of a real model -> its path. Mark such tests `real`: they skip where `make test` has not pulled the models."""
    pull = pytest.importorskip("kipu._pull")

    def path_of(name):
        try:
            return pull.find(name)
        except FileNotFoundError as e:
            pytest.skip(str(e))
    return path_of
