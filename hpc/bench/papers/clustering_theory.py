"""Claims of theory in the paper on KDAC by ISM, and the tests that hold them."""

from __future__ import annotations

from hpc.bench.papers.claims import Theorem

FORMULAS = "plugins/clustering/test_objective.py"
SOLVERS = "plugins/clustering/test_solvers.py"
RUNS = "plugins/clustering/test_kdac.py"
PARTS = "plugins/clustering/test_parts.py"

THEORY = (
    Theorem("(2)", "HSIC, NMI, novelty, CQ and cost by their definitions",
            (f"{RUNS}::test_all_measures_are_those_of_their_definitions",
             f"{PARTS}::test_mutual_information_equals_the_reference")),
    Theorem("(3)", "U by the leading eigenvectors of H D^(−1/2) K D^(−1/2) H",
            (f"{RUNS}::test_every_eigensolver_of_the_embedding_step_finds_the_same_subspace",
             f"{PARTS}::test_leading_subspace_by_products_equals_lapack")),
    Theorem("Algorithm 1", "k-means on the rows of U: `embedding_rows = \"published\"`, or rows of "
            "length one, the default",
            (f"{RUNS}::test_k_means_clusters_rows_of_length_one_or_as_published",)),
    Theorem("(4), Appendix A", "the weights γ, with D^(−1/2)",
            (f"{FORMULAS}::test_weights_are_those_of_equation_4_for_any_number_of_labelings",)),
    Theorem("(5), (8)", "gradient Φ(W) W, and Φ",
            (f"{FORMULAS}::test_derivatives_and_phi_of_every_kernel_and_task",
             f"{FORMULAS}::test_value_and_phi_are_the_sums_written_out")),
    Theorem("(6), (7)", "stationary points are eigenvectors of Φ: Lemmas 2 and 3",
            (f"{SOLVERS}::test_general_form_ends_at_a_stationary_point",)),
    Theorem("Algorithm 2", "plain iteration may raise the objective, the safeguarded one does not",
            (f"{SOLVERS}::"
             "test_the_plain_iteration_raises_the_objective_where_the_safeguarded_does_not",
             f"{SOLVERS}::test_no_step_raises_the_objective_within_a_round")),
    Theorem("Theorem 1, Lemmas 1 and 4", "a fixed point under (10) satisfies the second-order "
            "conditions: `least_curvature`, the least eigenvalue of the Lagrangian's Hessian on "
            "tangent vectors, of `curvature = true`",
            (f"{RUNS}::test_all_measures_are_those_of_their_definitions",
             f"{PARTS}::test_the_least_curvature_is_that_of_the_lagrangian_on_subspaces")),
    Theorem("(10)", "both sides of the condition on σ",
            (f"{RUNS}::test_all_measures_are_those_of_their_definitions",)),
    Theorem("(11)", "q where the eigengap is widest",
            (f"{RUNS}::test_the_eigengap_chooses_the_dimension_in_which_three_clusters_lie",)),
    Theorem("(12)", "spectral initialization",
            (f"{FORMULAS}::"
             "test_the_start_has_the_smallest_eigenvectors_of_phi_where_the_kernel_is_flat",)),
    Theorem("Theorem 2", "the iterates have a convergent subsequence: all are orthonormal",
            (f"{SOLVERS}::test_general_form_ends_at_a_stationary_point",
             f"{SOLVERS}::test_a_solver_that_leaves_the_manifold_is_told")),
    Theorem("§2", "SM: the Cayley curve is feasible and starts downhill",
            (f"{SOLVERS}::test_the_cayley_curve_is_feasible_and_starts_downhill",)),
    Theorem("§2", "DG: one column after the other, orthogonal to those before",
            (f"{SOLVERS}::test_dimension_growth_adds_one_column_after_the_other",)),
    Theorem("§3, [21]", "CPM finds the smallest eigenvectors",
            note="the benchmark compares its eigenvectors with LAPACK's"),
    Theorem("§4", "a tuning that finds parameters which work",
            (f"{RUNS}::test_tuning_finds_parameters_that_work",)),
    Theorem("§2, §3, Appendix A", "costs: DG O(t n²d²q), SM O(t(n²d² + d³)), ISM O(t(n²d² + d³)), "
            "by CPM O(t n²d²), U O(n³)",
            note="here O(n²(q + d) + nd²) by Φ = Xᵀ(D_Ψ − Ψ)X; no test counts operations"),
    Theorem("Appendix A", "cost and derivative without a loop: Γ = Ψ ⊙ ddᵀ ⊙ K, Xᵀ(D_Ψ − Ψ)X",
            (f"{FORMULAS}::test_value_and_phi_are_the_sums_written_out",)),
    Theorem("§5", "other kernels and tasks on the Stiefel manifold (left open there)",
            (f"{FORMULAS}::test_every_solver_solves_every_kernel_and_task",)),
)  # fmt: skip
