"""Design node and edge weights, by families.

==================  =====================================================================================
node_invariant      one weight for all nodes, by the published rule, GCV, SURE, discrepancy, L-curve, oracle
prony               equation (25), the modified error, as an SDP
relaxation          equations (29)-(30), the true error relaxed ("SDR"), closed form or SDP
minmax              equations (31)-(32), the worse of two extreme signals, or the worst of a box, smooth box or ball
worst_case          certified bounds on the largest error of any filter over such a set
edge                a weight for every edge and node: the true error or the likelihood over any S on the graph
exact               the true error (11) itself, by descent
blind               the same from noisy readings alone, by Stein's unbiased risk estimate
redesign            from the old weights after a sensor was added or removed
risk, conditions    bias, variance, MSE of any weights; the paper's conditions next to what is measured
estimate_noise      noise variance per station from noisy readings
placement           nodes to measure, by the expected error of a filter
robust_fit          a data term that trusts stations less that drift or spike, found by leave-one-out prediction
==================  =====================================================================================

Names that are imported ``as`` themselves are for other parts of nareg, and are not public.
"""

from nareg.design._convex.signal_sets import Ball, SmoothBox
from nareg.design._convex.worst_case import WorstCase, worst_case
from nareg.design._edge.edge import edge
from nareg.design._edge.sparse_likelihood import Elimination as Elimination
from nareg.design._minmax import minmax
from nareg.design._node.blind import blind
from nareg.design._node.completion import Completion as Completion
from nareg.design._node.estimate_noise import estimate_noise
from nareg.design._node.exact import exact
from nareg.design._node.gap_patterns import for_all_stations as for_all_stations
from nareg.design._node.gap_patterns import reduced_penalty as reduced_penalty
from nareg.design._node.gap_patterns import station_levels as station_levels
from nareg.design._node.node_invariant import RULES, node_invariant
from nareg.design._node.redesign import redesign
from nareg.design._node.robust_fit import RobustFit, robust_fit
from nareg.design._node.selection import Sampling
from nareg.design._prony import prony
from nareg.design._relaxation import relaxation
from nareg.design._risk.placement import Placement, placement
from nareg.design._risk.problem import moment as moment
from nareg.design._risk.risk import Conditions, Risk, conditions, risk
from nareg.results import load_design as load

__all__ = [
    "RULES",
    "Ball",
    "Conditions",
    "Placement",
    "Risk",
    "RobustFit",
    "Sampling",
    "SmoothBox",
    "WorstCase",
    "blind",
    "conditions",
    "edge",
    "estimate_noise",
    "exact",
    "load",
    "minmax",
    "node_invariant",
    "placement",
    "prony",
    "redesign",
    "relaxation",
    "risk",
    "robust_fit",
    "worst_case",
]
