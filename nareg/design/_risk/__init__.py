"""What all designs stand on: the checked problem, its risk and gradient, descent in w, supports and compiled loops."""
