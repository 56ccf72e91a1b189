"""Loading costs the weights and little else, however many threads were asked for."""
import os
import subprocess
import sys

import gguf
import pytest
from gguf_files import tiny_llama

MIB = 1 << 20
# The growth of a process of its own: the peak starts anew where clear_refs says so.
CHILD = """
import os, sys
from kipu._core import ModelHandle
from kipu._load import build_program

def status(field):
    with open("/proc/self/status") as f:
        return 1024 * next(int(line.split()[1]) for line in f if line.startswith(field))

model = ModelHandle([os.fsencode(sys.argv[1])])
hp = build_program(model, model, model.vocab.size)
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")
before = status("VmRSS")
model.load(hp, int(sys.argv[2]), False, lambda fraction: True)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the peak of memory is measured through /proc")
@pytest.mark.skipif(os.environ.get("KIPU_BUILD") in ("asan", "tsan"), reason="a sanitizer's memory is not ours")
@pytest.mark.parametrize("n_threads", [1, 4, 512])
def test_peak(tmp_path, n_threads):
    """The arena and one buffer of 256 KiB for each of four workers; 4 MiB more are for huge pages and threads."""
    kinds = {f"blk.0.ffn_{part}.weight": gguf.GGMLQuantizationType.Q8_0 for part in ("gate", "up")}
    path = tiny_llama(tmp_path / "m.gguf", n_embd=1024, n_ff=4096, n_vocab=1000, kinds=kinds)
    call = [sys.executable, "-c", CHILD, path, str(n_threads)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=True, env=os.environ | {"KIPU_CPUS": "4"})
    size = os.path.getsize(path)
    assert 0.8 * size < int(done.stdout) <= 1.05 * size + 5 * MIB
