"""The paper's designs: Prony (25) and the relaxation (29)-(30)."""
