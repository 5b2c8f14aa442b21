"""How the tests run: hypothesis, which tests are slow, and nothing done twice by the workers of ``pytest -n``.

Hypothesis takes the same examples every time (a failure is never a matter of luck) and no deadline (timings vary).
Shrinking a failure can take minutes; ask for it with ``pytest --hypothesis-profile=shrink``.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

# The workers are the parallelism: threads of the linear algebra would only get in each other's way. NumPy reads this
# when it is imported, so nothing above may import it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "shrink",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("inbounds", parent=settings.get_profile("shrink"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("quick", parent=settings.get_profile("inbounds"), max_examples=6)
settings.load_profile("inbounds")

SLOW = {
    "test_bets_checked.py",
    "test_learned_mixtures.py",
    "test_compiled.py",
    "test_concave_cspda.py",
    "test_convergence.py",
    "test_crpo.py",
    "test_cspda.py",
    "test_frame.py",
    "test_learn_certified.py",
    "test_mixture.py",
    "test_model_based.py",
    "test_npg_pd.py",
    "test_pdsc.py",
    "test_processes.py",
    "test_randomized_primal_dual.py",
    "test_reproduce.py",
    "test_resume.py",
    "test_rpg_pd.py",
    "test_samples.py",
    "test_several_at_once.py",
    "test_theorems.py",
    "test_triple_qa.py",
    "test_ucbvi_gamma.py",
    "test_verify.py",
    # and of the other files
    "test_a_deterministic_search_keeps_its_time",
    "test_combined_sweeps_need_far_fewer",
    "test_compare_prints_a_table_draws_and_resumes",
    "test_damaged_files_of_horizons_and_averages",
    "test_damaged_npz_files",
    "test_damaged_toml_files",
    "test_drawn_problems",
    "test_drawn_problems_with_many_constraints",
    "test_episodes_of_a_model_have_the_values_of_its_policies",
    "test_every_model_survives_npz",
    "test_every_model_with_a_horizon_survives_both_formats",
    "test_every_module_can_be_imported_as_itself",
    "test_feasibility_is_decided_on_both_sides",
    "test_finite_horizons",
    "test_frequencies_of_draw_pair",
    "test_frontier_writes_a_picture_and_a_csv",
    "test_frontiers_of_two_constraints_do_not_overwrite_each_other",
    "test_functions_of_a_script_that_say_ib_reach_worker_processes",
    "test_hostile_npz_files_with_the_right_checksums",
    "test_long_ways_take_no_longer_than_their_length",
    "test_many_small_problems",
    "test_more_states_than_a_proof_takes",
    "test_named_problems",
    "test_neither_results_nor_keys_depend_on_the_number_of_workers",
    "test_polish_ends_at_a_vertex",
    "test_presets_learn",
    "test_reproduce_writes_where_it_says",
    "test_the_battery_is_what_its_text_says",
    "test_the_csv_holds_every_run",
    "test_the_result_does_not_depend_on_the_number_of_workers",
}
"""What `make quick` leaves out: files of more than two seconds that are about one algorithm, or statistics over many
seeds (of every algorithm, test_contract.py remains); and tests of more than half a second. A new one may as well carry
the mark ``@pytest.mark.slow`` itself."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not SLOW.isdisjoint({item.path.name, item.name.partition("[")[0]}):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a worker of pytest -n
        from numba.core.dispatcher import Dispatcher

        Dispatcher.compile = _one_process_each(Dispatcher.compile)


def _one_process_each(compile_kernel: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let one worker compile a kernel while others that need it wait, and then read it from disk.

    With an empty cache a third of the compilation was done twice at once. A kernel is compiled after those that it
    calls have been asked for, so workers wait for each other along the calls, which have no cycles but a kernel's own.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows: there, the work is done twice
        return compile_kernel

    from numba.core.compiler_lock import global_compiler_lock

    held: set[str] = set()

    @contextmanager
    def alone(path: str) -> Iterator[None]:
        if path in held:  # a kernel that calls itself
            yield
            return
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held.add(path)
            try:
                yield
            finally:
                held.remove(path)

    def compile_once(kernel: Any, signature: Any) -> Any:
        folder, name = kernel._cache.cache_path, f"{kernel.__module__}.{kernel.__qualname__}.lock"
        if not folder or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            return compile_kernel(kernel, signature)
        with global_compiler_lock, alone(os.path.join(folder, name)):
            return compile_kernel(kernel, signature)

    return compile_once
