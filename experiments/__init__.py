"""One file a published figure: its settings, its points, its picture, and what the numbers say of the paper's claims."""
