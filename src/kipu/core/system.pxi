# What the machine and this build offer.

cdef extern from "base/cpu.h" nogil:
    ctypedef enum kipu_tier:
        KIPU_TIER_REF, KIPU_TIER_AVX2, KIPU_TIER_AVX512, KIPU_TIER_NEON, KIPU_TIER_COUNT
    const char *kipu_tier_name(kipu_tier tier)
    int kipu_cpu_describe(char *text, int size)
    int kipu_cpu_usable()
    int kipu_cpu_physical()

cdef extern from "kernels/kernels.h" nogil:
    ctypedef struct kipu_kernels:
        kipu_tier tier
    const kipu_kernels *kipu_kernels_of(kipu_tier tier)
    kipu_status kipu_kernels_get(const kipu_kernels **out, kipu_error *err)


def cpu_tiers():
    """Names of the kernel tiers that this build has and this machine can run."""
    return [kipu_tier_name(<kipu_tier>t).decode() for t in range(KIPU_TIER_COUNT) if kipu_kernels_of(<kipu_tier>t) != NULL]


def cpu_tier():
    """Name of the tier in use: the best one, or the one KIPU_CPU names (ValueError, NotImplementedError if that cannot be)."""
    cdef const kipu_kernels *k = NULL
    cdef kipu_error err
    check(kipu_kernels_get(&k, &err), &err)
    return kipu_tier_name(k.tier).decode()


def cpu_features():
    """What the processor offers, as one line "AVX2 = 1 | ... | "."""
    cdef char text[1024]
    cdef int n = kipu_cpu_describe(text, sizeof(text))
    return text[:n].decode()


def cpu_usable():
    """CPUs that affinity and cgroup quota leave to this process."""
    return kipu_cpu_usable()


def cpu_physical():
    """Physical cores among the usable CPUs: the default number of threads."""
    return kipu_cpu_physical()


def system_info():
    """What kipu found on this machine, as a dict of plain values.

    tier : name of the kernel tier in use; the best of `tiers` unless KIPU_CPU names one.
    tiers : names of the tiers that this build has and this machine can run.
    features : names of the instruction sets that processor and operating system offer.
    cpus : CPUs that affinity and cgroup quota leave to this process.
    cores : physical cores among them; the default number of threads.
    """
    features = [entry.split(" = ")[0] for entry in cpu_features().split(" | ") if entry]
    return {"tier": cpu_tier(), "tiers": cpu_tiers(), "features": features, "cpus": cpu_usable(), "cores": cpu_physical()}
