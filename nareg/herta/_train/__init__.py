"""Training: inputs, plan by cost, optimizers, the loop, and what it returns."""
