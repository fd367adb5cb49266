"""The suite on a whole module: built-in plugins pass, and a bad one fails where it is bad."""

import sys
import textwrap

import pytest

from thalweg.workbench.check_plugin import check_plugin


@pytest.fixture
def module(tmp_path, monkeypatch, comm):
    """A way to make a module of some text importable on all ranks."""
    names = []

    def make(text, name="thalweg_made_up"):
        folder = type(tmp_path)(comm.bcast(str(tmp_path)))
        if comm.rank == 0:
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
        comm.barrier()
        monkeypatch.syspath_prepend(str(folder))
        names.append(name)
        return name

    yield make
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.petsc
@pytest.mark.ranks(1, 2)
def test_the_generic_solvers_pass(comm):
    findings = check_plugin("thalweg_descent", comm)
    assert [finding for finding in findings if not finding[1]] == []
    assert any("lbfgs" in name for name, _, _ in findings)


@pytest.mark.ranks(1, 2)
def test_a_bad_objective_fails_with_a_sentence_and_the_rest_is_checked(comm, module):
    name = module(
        """
        import numpy as np
        from thalweg.parallel import Layout
        from thalweg.plugins import DataSpec, MetricSpec, ObjectiveSpec, Option, hookimpl
        from thalweg.testing import SpringProblem

        class Off(SpringProblem):
            def value_and_gradient(self, x):
                value, gradient = super().value_and_gradient(x)
                return value, 1.01 * gradient

        def build(dataset, comm, strength=1.0):
            return Off(comm, dataset.layout.rows)

        def measure(solution, dataset, comm):
            return {"rows": dataset.layout.rows}

        @hookimpl
        def thalweg_objectives():
            strength = Option("strength", float, 1.0, "how strong")
            return [
                ObjectiveSpec(name="off", summary="wrong", load=f"{__name__}:build",
                              options=(strength,)),
                ObjectiveSpec(name="No Good", summary="", load=f"{__name__}:build"),
                ObjectiveSpec(name="missing", summary="gone", load=f"{__name__}:nothing"),
            ]

        @hookimpl
        def thalweg_metrics():
            return [MetricSpec(name="rows", summary="counts rows", load=f"{__name__}:measure")]
        """
    )
    findings = {name: (passed, text) for name, passed, text in check_plugin(name, comm)}
    assert findings["objective 'off': build"][0]
    assert findings["metric 'rows': measure"] == (True, "rows")
    wrong = {name: text for name, (passed, text) in findings.items() if not passed}
    assert "9.9e-03 relative" in wrong.pop("objective 'off': gradient at start 0")
    assert "9.9e-03 relative" in wrong.pop("objective 'off': gradient at start 1")
    assert "lower-case words" in wrong.pop("objective 'No Good': description")
    assert "has no attribute 'nothing'" in wrong.pop("objective 'missing': description")
    assert "central differences" in wrong.pop(
        "objective 'off': capabilities", "central differences"
    )
    assert wrong == {}
