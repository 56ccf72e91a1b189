"""The type stubs of the compiled module name what is there, with the same parameters."""
import ast
import inspect
from pathlib import Path

import kipu
from kipu import _core

STUB = ast.parse((Path(kipu.__file__).parent / "_core.pyi").read_text())
CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
PRIVATE = {"MemoryProbe", "NativeBatch"}    # and every *Core: an owner of a C object without members


def test_every_name_of_the_stub_exists():
    for node in STUB.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            assert hasattr(_core, node.name), node.name


def test_every_class_of_the_module_is_in_the_stub():
    mine = {name for name, value in vars(_core).items() if inspect.isclass(value) and value.__module__ == "kipu._core"}
    assert {name for name in mine - PRIVATE if not name.endswith("Core") and name[0] != "_"} <= {node.name for node in CLASSES}


def test_members_and_parameters():
    for node in CLASSES:
        kind = getattr(_core, node.name)
        for member in node.body:
            if not isinstance(member, ast.FunctionDef) or member.name.startswith("__"):
                continue
            assert hasattr(kind, member.name), f"{node.name}.{member.name}"
            is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list)
            if not is_property and callable(getattr(kind, member.name)):
                assert parameters_of(getattr(kind, member.name)) in ([a.arg for a in member.args.args], None), f"{node.name}.{member.name}"
        stubbed = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
        stubbed |= {m.target.id for m in node.body if isinstance(m, ast.AnnAssign)}
        public = {name for name in vars(kind) if not name.startswith("_")}
        assert public <= stubbed, f"{node.name}: {public - stubbed}"


def parameters_of(function):
    """Names from the first line of the docstring, where the compiler writes the signature; None if there is none."""
    first = (function.__doc__ or "").split("\n")[0]
    if not first.startswith(function.__name__ + "("):
        return None
    inside = first[len(function.__name__) + 1 : first.rindex(")")]
    inside = inside.split(")")[0] if "->" in first else inside
    names = [part.split("=")[0].split(":")[0].split()[-1] for part in split_top(inside)]
    return names


def split_top(text):
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip() and p.strip() != "not None"]
