"""The engines that families share.  Each room begins with its contract.

``laplacian``
    Systems with the Laplacian of a graph: set up once, solved many times.
``hessian``
    Products with a Hessian that is never formed, as operators for Krylov solvers.
``secants``
    All pairs of a set of points: the worst changes of length, certified; columns generated.
``neighbors``
    Exact nearest neighbors of distributed rows.

An engine imports :mod:`thalweg.parallel`, :mod:`thalweg.numerics` and nothing above.
"""
