"""One file per published figure: its settings, its points, its picture, and a verdict on each of the paper's claims."""
