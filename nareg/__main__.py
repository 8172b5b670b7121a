"""``python -m nareg``."""

from nareg.cli import run

if __name__ == "__main__":
    run()
