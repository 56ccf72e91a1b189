"""Shared by all tests: this folder is on sys.path (c_programs.py), and the two options about what to run."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out tests marked slow or real")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--quick"):
        return
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("real")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def reference():
    """The folder of reference data that KIPU_REFERENCE names; tests over the whole data skip without it."""
    folder = os.environ.get("KIPU_REFERENCE")
    if not folder:
        pytest.skip("KIPU_REFERENCE is not set")
    return Path(folder)
