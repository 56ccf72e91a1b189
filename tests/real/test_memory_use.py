"""Resident memory from before loading to after the first token: at most 1.1 times the file, the cache, and 64 MiB."""
import subprocess
import sys

import pytest
from kipu._pull import MODELS, cache_dir

CODE = """
import sys, kipu
def resident():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))
before = resident()
model = kipu.Model(sys.argv[1])
ctx = model.context(n_ctx=4096)
ctx.decode(model.tokenize("The capital of France is"))
ctx.logits_ith(-1)
print(resident() - before)
"""


@pytest.mark.real
@pytest.mark.parametrize("name", MODELS)
def test_growth_to_the_first_token(name):
    path = cache_dir() / MODELS[name].file
    if not path.exists():
        pytest.skip(f"{path} is not here: kipu pull {name}")
    growth = int(subprocess.run([sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True).stdout)
    assert growth <= 1.1 * MODELS[name].size + (64 << 20)      # the cache of five tokens is not even counted
