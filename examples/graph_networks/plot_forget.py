"""
Forget on request
=================

A trained classifier forgets a hundred edges, one request after the other. Each removal ends with a certificate that uses
a part of its budget.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.unlearning import CertifiedGPR

rng = np.random.default_rng(0)
data = nareg.datasets.node_classification.synthetic(1500, 5, rng=rng)
model = CertifiedGPR(weights=2, lam=1e-2, alpha=0.1, eps=1.0, delta=1e-4, rng=rng)
model.fit(data.graph, data.features, data.labels, train=np.arange(900))
edges = np.argwhere(np.triu(data.graph.adjacency.toarray(), 1) > 0)
test = np.arange(900, 1500)

spent, accuracy = [], []
for u, v in rng.permutation(edges)[:100]:
    certificate = model.remove_edges([(u, v)])
    spent.append(100 * certificate.spent / certificate.budget)
    accuracy.append(100 * (model.predict(test) == data.labels[test]).mean())

# %%
figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
top.plot(accuracy, color="#0072B2")
top.set(ylabel="test accuracy (%)", ylim=(90, 100))
bottom.plot(spent, color="#D55E00")
bottom.set(xlabel="requests", ylabel="budget used (%)", ylim=(0, 100))
figure.tight_layout()
