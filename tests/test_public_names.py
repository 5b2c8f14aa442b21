"""The public names: a contract that scripts outside the project rely on."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import inbounds as ib

NAMES = (
    "CMDP",
    "CSPDA",
    "Constraint",
    "Infeasible",
    "InvalidInput",
    "Policy",
    "Simulator",
    "build",
    "evaluate",
    "learn",
    "mix",
    "occupancy",
    "plan",
    "slater",
    "solve",
    "zoo",
)


def fresh(code):
    """What `code` prints in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", [name for name in NAMES if name != "zoo"])
def test_names_live_where_the_table_says(name):
    assert getattr(ib, name).__module__ == f"inbounds.{ib._HOMES[name]}"


@pytest.mark.parametrize(
    "code",
    [
        "import inbounds as ib; import inbounds.learn.cspda",
        "import inbounds.learn.cspda; import inbounds as ib",
        "import inbounds as ib; ib.learn; import inbounds.learn.cspda; from inbounds.learn import kernels",
        "from inbounds.learn import kernels; import inbounds as ib; ib.CSPDA",
        "import importlib; importlib.import_module('inbounds.learn.algorithm'); import inbounds as ib",
        "from inbounds.learn import cspda; from inbounds import learn; import inbounds as ib; assert ib.learn is learn",
    ],
)
def test_learn_stays_the_function(code):
    assert fresh(f"{code}; print(ib.learn.__module__, callable(ib.learn))") == "inbounds.learn.algorithm True"


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
    assert pickle.loads(pickle.dumps(ib)) is ib
    code = (
        "import inbounds as ib; from joblib import Parallel, delayed\n"
        "def states(buffer): return ib.zoo.queue(buffer=buffer).n_states\n"
        "print(Parallel(2)(delayed(states)(buffer) for buffer in (4, 7)))"
    )
    assert fresh(code) == "[5, 8]"


def test_version():
    assert ib.__version__
