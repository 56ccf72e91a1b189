"""The README's programs run, and its make targets exist."""
import re

import pytest
from c_programs import ROOT

README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.real
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program(number, real_model, tmp_path, monkeypatch, capsys):
    (tmp_path / "model.gguf").symlink_to(real_model("smollm2"))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(PROGRAMS[number], f"README program {number + 1}", "exec"), names)
    if number == 0:
        assert kipu_text(names) == b" Paris"
    else:
        assert capsys.readouterr().out.startswith([" Paris", "(2, 49152)"][number - 1])


def kipu_text(names):
    return names["kipu"].Model("model.gguf", vocab_only=True).token_to_piece(names["best"])


def test_there_are_programs():
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize("document", ["README.md", "HACKING.md", ".ci/run"])
def test_make_targets_exist(document):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)\b", (ROOT / document).read_text()))
    assert named and named <= targets


@pytest.mark.parametrize("document", ["README.md", "HACKING.md"])
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
