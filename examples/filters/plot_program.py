"""
Add a constraint to the paper's program
=======================================

Prony's design (25) is a convex program. Here the squared weights have a budget, which a cvxpy parameter sets: the program is
compiled once. A larger budget smooths more.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.design import programs

network = nareg.datasets.load("us-weather").complete().select(range(0, 140, 4))
graph, field = network.graph, network.signals - network.signals.mean()  # the 35 stations of a quarter
noise = 25.0  # variance, °C^2

budget = cp.Parameter(nonneg=True)
program = programs.prony(graph, signals=field, noise=noise, lower=0.02)
program.add(cp.sum(program.w2) <= budget)
print(program)

# %%
# Weights are kept within the budget. The program's optimum is a lower bound on the criterion of any weights.
budgets = np.array([0.8, 1.2, 2, 4, 8, 16])
errors, spent = [], []
for budget.value in budgets:
    design = program.solve()
    errors.append(nareg.design.risk(graph, design, signals=field, noise=noise).nmse)
    spent.append(np.sum(design.weights**2))

figure, ax = plt.subplots(figsize=(6, 3.6))
ax.semilogx(budgets, errors, "o-", label="with a budget")
free = nareg.design.prony(graph, signals=field, noise=noise, lower=0.02)
ax.axhline(nareg.design.risk(graph, free, signals=field, noise=noise).nmse, color="gray", label="without")
ax.set(xlabel="budget on the sum of squared weights", ylabel="expected error over signal power", ylim=(0, None))
ax.legend()
figure.tight_layout()
print("spent:", np.round(spent, 3))
