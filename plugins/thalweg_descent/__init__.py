"""Generic descent: directions, line searches, and adapters to TAO and SciPy.

A native solver is a *direction* (steepest, conjugate or limited-memory) with a
*line search* (backtracking or strong Wolfe); see :mod:`thalweg_descent.descent`
for the step that joins them.  Everything is written with operations on ``Vec``,
so that it is right for distributed and for replicated variables.
"""
