"""The public names: a contract that scripts outside the project rely on."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import inbounds as ib


def fresh(code):
    """What `code` prints in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", ib.__all__)
def test_name_is_public(name):
    assert name in ib.__all__
    assert name in dir(ib)
    assert getattr(ib, name) is getattr(ib, name)


def test_unknown_names_are_missing():
    with pytest.raises(AttributeError, match="module 'inbounds' has no attribute 'unicorn'"):
        _ = ib.unicorn


def test_what_type_checkers_see_is_what_is_loaded():
    tree = ast.parse(Path(ib.__file__).read_text(encoding="utf-8"))
    imported, homes = {}, {}
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                for alias in statement.names:
                    assert alias.asname == alias.name  # the form that marks a re-export
                    imported[alias.name] = statement.module
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes = {name: f"inbounds.{home}" for name, home in ast.literal_eval(node.value).items()}
    assert imported.pop("zoo") == "inbounds"
    assert imported == homes
    assert set(ib.__all__) == {*homes, "zoo"}


@pytest.mark.parametrize("name", [name for name in ib.__all__ if name != "zoo"])
def test_names_live_where_the_table_says(name):
    assert getattr(ib, name).__module__ == f"inbounds.{ib._HOMES[name]}"


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ib.__path__, "inbounds.")
    if not module.name.endswith("__main__")  # importing it runs the command line
)


def test_every_module_can_be_imported_as_itself():
    """``import inbounds.x.y as m`` gives the module, in a new interpreter, whatever was imported before it."""
    code = "\n".join(f"import {name} as m; assert m.__name__ == {name!r}, {name!r}" for name in MODULES)
    fresh(f"{code}\nimport inbounds as ib; assert all(getattr(ib, name) for name in ib.__all__)\n{code}")


def test_no_module_of_the_package_shares_its_name_with_a_public_name():
    assert not {name for name in ib.__all__ if f"inbounds.{name}" in MODULES} - {"zoo"}


def test_importing_inbounds_is_light():
    heavy = "{'numba', 'scipy', 'matplotlib', 'highspy', 'numpy'}"
    assert fresh(f"import sys, inbounds; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_the_model_alone_does_not_load_the_solver():
    code = (
        "import sys, inbounds as ib; ib.evaluate(ib.zoo.queue(), ib.Policy.uniform(ib.zoo.queue()));"
        "print(sorted({'matplotlib', 'highspy'} & set(sys.modules)))"
    )
    assert fresh(code) == "[]"


def test_functions_of_a_script_that_say_ib_reach_worker_processes():
    """They are pickled by value, with the globals that they name: the package itself among them."""
    code = (
        "import inbounds as ib; from joblib import Parallel, delayed\n"
        "def states(buffer): return ib.zoo.queue(buffer=buffer).n_states\n"
        "print(Parallel(2)(delayed(states)(buffer) for buffer in (4, 7)))"
    )
    assert fresh(code) == "[5, 8]"


def test_the_version_stands_in_one_place():
    assert ib.__version__ == metadata.version("inbounds"), "after a change of version, install again: pip install -e ."


def test_a_name_means_one_thing():
    """Each public name at the top of a module belongs to one room; the checker, which stands alone, has its own.

    Within a room files share names on purpose: every algorithm has its `State`, every format its `read`.
    """
    root, rooms = Path(ib.__file__).parent, {}
    for path in root.rglob("*.py"):
        if path == root / "proofs" / "verify.py":
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            for name in names:
                rooms.setdefault(name, set()).add(path.relative_to(root).parts[0])
    assert {name: found for name, found in rooms.items() if len(found) > 1 and not name.startswith("_")} == {}
