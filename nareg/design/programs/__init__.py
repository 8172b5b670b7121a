"""The paper's convex programs as cvxpy problems: read one, change it, solve it.

==============  =======================================================================
prony           the modified error, equation (25)
filter_step     the true error over the filter H, step one of the relaxation (29)
fit             the weights closest to a filter, step two (30)
minmax          the worse of two extreme signals (31)-(32), for either error
robust          the true error at the worst second moment near a sample's
==============  =======================================================================

Each returns a :class:`Program`: ``problem``, ``variables``, ``parameters``, ``add(constraint)``, ``set(data)``, ``solve()``.
:func:`jacobi` and :func:`recursion` are constraints for filters that neighbors compute in a promised number of rounds.
"""

from nareg.design.programs._omega import jacobi, recursion
from nareg.design.programs._program import Program
from nareg.design.programs.minmax import minmax
from nareg.design.programs.prony import prony
from nareg.design.programs.relaxation import filter_step, fit
from nareg.design.programs.robust import robust

__all__ = ["Program", "filter_step", "fit", "jacobi", "minmax", "prony", "recursion", "robust"]
