"""Tiers, and how many CPUs: affinity, cgroup quotas in made-up system trees, cores."""
import math
import os
import subprocess
import sys

import pytest

import kipu
from kipu import _core

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A function that writes files of a system tree, which kipu then takes for "/"."""
    monkeypatch.setenv("KIPU_SYSFS_ROOT", str(tmp_path))
    monkeypatch.delenv("KIPU_CPUS", raising=False)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return write


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/cpu"
OTHER_V1 = "sys/fs/cgroup/cpu,cpuacct"


def v1(directory, quota, period=100000):
    return {f"{directory}/cpu.cfs_quota_us": f"{quota}\n", f"{directory}/cpu.cfs_period_us": f"{period}\n"}


QUOTAS = {
    "no files": ({}, math.inf),
    "v2": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "100000 100000\n"}, 1),
    "v2 is rounded up": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "110000 100000\n"}, 2),
    "v2 is at least one": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "1000 100000\n"}, 1),
    "v2 without limit": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "max 100000\n"}, math.inf),
    "v2 the parent binds": ({"proc/self/cgroup": "0::/a/b/c\n", f"{V2}/a/b/c/cpu.max": "400000 100000\n",
                             f"{V2}/a/b/cpu.max": "max 100000\n", f"{V2}/a/cpu.max": "50000 100000\n"}, 1),
    "v2 the root of a container": ({"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "100000 100000\n"}, 1),
    "v2 a path of the host": ({"proc/self/cgroup": "0::/docker/123\n", f"{V2}/cpu.max": "100000 100000\n"}, 1),
    "v2 nonsense": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "what\n"}, math.inf),
    "v2 zero period": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "100000 0\n"}, math.inf),
    "v1": ({"proc/self/cgroup": "5:cpuset:/s\n4:cpu,cpuacct:/a\n", **v1(f"{V1}/a", 100000)}, 1),
    "v1 other mount": ({"proc/self/cgroup": "4:cpuacct,cpu:/a\n", **v1(f"{OTHER_V1}/a", 100000)}, 1),
    "v1 without limit": ({"proc/self/cgroup": "4:cpu:/a\n", **v1(f"{V1}/a", -1)}, math.inf),
    "v1 the parent binds": ({"proc/self/cgroup": "4:cpu:/a/b\n", **v1(f"{V1}/a/b", -1), **v1(f"{V1}/a", 60000)}, 1),
    "v1 cpuset is another controller": ({"proc/self/cgroup": "4:cpuset:/a\n", **v1(f"{V1}/a", 1000)}, math.inf),
    "broken lines": ({"proc/self/cgroup": "\n:\n::\nabc\n" + "x" * 5000 + "\n0::/a\n", f"{V2}/a/cpu.max": "100000 100000"}, 1),
    "long path": ({"proc/self/cgroup": "0::/" + "x" * 990 + "\n"}, math.inf),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_quota(system, name):
    files, quota = QUOTAS[name]
    system(files)
    assert _core.cpu_usable() == min(len(CPUS), quota)
    assert _core.cpu_physical() == min(len(CPUS), quota)   # without a topology each CPU is a core


def siblings(groups):
    return {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": text for text, cpus in groups for cpu in cpus}


def test_all_cpus_are_one_core(system):
    system(siblings([(f"{CPUS[0]}-{CPUS[-1]}\n", CPUS)]))
    assert _core.cpu_physical() == 1 and _core.cpu_usable() == len(CPUS)


def test_each_cpu_is_a_core(system):
    system(siblings([(f"{cpu},{cpu + 1000}\n", [cpu]) for cpu in CPUS]))
    assert _core.cpu_physical() == len(CPUS)


@pytest.mark.parametrize("text", ["", "\n", "x", "-3", "0-", "1-0,", "99999999999999999999-1"])
def test_strange_sibling_lists(system, text):
    system(siblings([(text, CPUS)]))
    assert 1 <= _core.cpu_physical() <= len(CPUS)


def test_forced_count(system, monkeypatch):
    system(QUOTAS["v2"][0])
    for text, expected in [("7", 7), ("512", 512), ("0", 1), ("-1", 1), ("513", 1), ("many", 1), ("", 1)]:
        monkeypatch.setenv("KIPU_CPUS", text)
        assert (_core.cpu_usable(), _core.cpu_physical()) == (expected, expected), text


def test_affinity_is_asked_each_time(system):
    os.sched_setaffinity(0, CPUS[:1])
    try:
        assert _core.cpu_usable() == _core.cpu_physical() == 1
    finally:
        os.sched_setaffinity(0, CPUS)


def test_system_info():
    info = kipu.system_info()
    assert info["tier"] in info["tiers"] and info["tiers"][0] == "ref" and len(set(info["tiers"])) == len(info["tiers"])
    assert 1 <= info["cores"] <= info["cpus"]
    if "avx512" in info["tiers"]:
        assert {"AVX2", "AVX512F", "AVX512_VNNI"} <= set(info["features"])


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="no /proc/cpuinfo to compare with")
def test_features_are_those_of_the_system():
    words = set(open("/proc/cpuinfo").read().split())
    for feature in set(kipu.system_info()["features"]) - {"NEON", "DOTPROD", "FP16", "I8MM"}:
        assert feature.lower() in words or feature.lower().replace("avx512_vbmi", "avx512vbmi") in words


def tier_in_process(name):
    code = "import kipu; print(kipu.system_info()['tier'])"
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, "KIPU_CPU": name}, capture_output=True, text=True)


@pytest.mark.parametrize("tier", _core.cpu_tiers())
def test_forced_tier(tier):
    assert tier_in_process(tier).stdout.strip() == tier


def test_unknown_and_absent_tier():
    assert "ValueError: KIPU_CPU: unknown kernel tier 'avx9', expected ref, avx2, avx512 or neon" in tier_in_process("avx9").stderr
    absent = "avx2" if "neon" in kipu.system_info()["tiers"] else "neon"
    assert f"NotImplementedError: KIPU_CPU: kernel tier '{absent}'" in tier_in_process(absent).stderr
