"""What type checkers are told of the native module is what it has."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest
import warmset
from warmset import _native

PACKAGE = Path(warmset.__file__).parent
STUB = ast.parse((PACKAGE / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def members(stub: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}


def is_property(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


def parameters(function: ast.FunctionDef) -> list[tuple[str, str | None]]:
    """Names and defaults, without `self`."""
    arguments = [*function.args.posonlyargs, *function.args.args][1:]
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + [
        repr(ast.literal_eval(each)) for each in function.args.defaults
    ]
    return [(argument.arg, default) for argument, default in zip(arguments, defaults, strict=True)]


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
    assert {name for name in vars(_native) if not name.startswith("_")} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_what_its_stub_says_and_no_more(name: str):
    found, stub = getattr(_native, name), members(CLASSES[name])
    if issubclass(found, Exception):
        assert [base.id for base in CLASSES[name].bases] == [found.__base__.__name__]
        return
    assert {each for each in vars(found) if not each.startswith("_")} <= set(stub)
    for member, function in stub.items():
        # Python shows a class's own buffer protocol by name since 3.12.
        if member == "__buffer__" and sys.version_info < (3, 12):
            continue
        assert hasattr(found, member), f"{name}.{member}"
        assert is_property(function) == inspect.isdatadescriptor(inspect.getattr_static(found, member)), member
        if not member.startswith("__") and not is_property(function):
            shown = list(inspect.signature(getattr(found, member)).parameters.values())[1:]
            wanted = [(each.name, None if each.default is each.empty else repr(each.default)) for each in shown]
            assert parameters(function) == wanted, f"{name}.{member}"
