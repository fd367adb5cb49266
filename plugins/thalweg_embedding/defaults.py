"""Numbers that decide a default, each with its reason.

Stopping rules are in ``plugin.py``, which imports nothing of this package.  "Notes" are
hpc/results/notes/embedding.md, where alternatives were measured on ten sets of data.
"""

# -- affinities ----------------------------------------------------------------------------

#: Perplexity of 90 points and more: scikit-learn's and openTSNE's.
PERPLEXITY = 30.0

#: Neighbors of a point that have an entropic affinity, in units of the perplexity: van der Maaten
#: (2014), "Accelerating t-SNE using tree-based algorithms".
NEIGHBORS_PER_PERPLEXITY = 3

#: Points up to which all pairs have an affinity, for the exact problem of the papers.
DENSE_LIMIT = 1000

# -- starts --------------------------------------------------------------------------------

#: Deviation of a start in map units: a map may unfold in any way, and the first steps still show in
#: the objective.
START_SCALE = 1e-2

#: The same for maps of many points, from random numbers, where a grid's error would hide the forces
#: in a smaller one; and from principal components, which have unfolded already.
LARGE_SCALE = 0.1
UNFOLDED_SCALE = 1.0

#: Random numbers that are added to a start which is computed, as a share of its scale.
NOISE = 1e-3

# -- stages --------------------------------------------------------------------------------

#: Points from which a mesh sums the repulsion, and early exaggeration is the default.  Below, it
#: raised recall on two of four sets, for two to three times the evaluations (notes, "Stages").
MANY_ROWS = 1_000

#: By how much, as in scikit-learn, and most iterations of a stage.  Exaggerated maps gather classes
#: before they grow; stages of 10 iterations end higher on MNIST, and of 32 collapse the map of
#: texts (notes, "Stages").
EXAGGERATION = 12.0
STAGE_ITERATIONS = 16

#: The last factors of lambda: many small stages let maps grow without tearing.
LATE_STAGES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

#: Points from which a step may be longer than one map unit: it grows as the side of a map does,
#: with the square root of the number of points.  No other limit was better on the whole (notes,
#: "The limit on steps").  Fitted to those sets; it ends the late stages, and doubles LocalMAP's.
ROWS_PER_STEP = 15_000

# -- the spectral direction ----------------------------------------------------------------

#: kappa where the user gives none: all weights for small maps; for large ones a sixth of a
#: row's weights, which are about a third of their sum, between the paper's 7 and 20.
FULL_LIMIT = 1000
MIN_NEIGHBORS, MAX_NEIGHBORS = 7, 20
SHARE_OF_NEIGHBORS = 6.0

# -- ways to compute, fitted to one machine: another may be quicker by other numbers ---------

#: Rows from which a grid is quicker than all pairs, by dimension.
GRID_ROWS = {1: 1_000, 2: 1_000, 3: 20_000}

#: Error allowed to a grid above which the attraction is summed in single precision, too.
SINGLE_PRECISION_ERROR = 1e-5

#: Nanoseconds for a mode and for a near pair: a model of the cost, good enough to choose by.
MODE_COST, PAIR_COST = 20.0, 1.0

#: The same for a near pair of second derivatives, and for a pair of an exact sum.
CURVATURE_PAIR_COST, EXACT_COST = 6.0, 1.5

#: Points from which a note says that all pairs are summed.
SLOW_ROWS = 5_000

#: Rows of a map from which several ranks take a slab each; below, all points go to all ranks,
#: and a dozen exchanges are spared.
SLAB_ROWS = 20_000

#: Fixed points from which their field is read from a mesh.
FIXED_ROWS = 5_000

#: Rows up to which a dense eigenproblem on one rank is quickest.
DENSE_ROWS = 1500
