"""Methods in space and time against what anybody would use: one command per protocol.

    python benchmarks/spacetime.py stranger      ten simulated files with noise, gaps and faulty sensors
    python benchmarks/spacetime.py bands         coverage of 50, 90 and 99 % bands on hidden readings of six networks
    python benchmarks/spacetime.py faults        faults put into five networks: area under the precision-recall curve
    python benchmarks/spacetime.py stream        seconds per update of a stream, 60 and 500 stations
    python benchmarks/spacetime.py placement     ten sites for a sensor: expected against realized fall of the error

Prints a table and writes the rows to spacetime-results/<protocol>.csv. A run that was killed goes on where it stood;
--fresh computes everything again. Random numbers come from the stated seeds. NAREG_DATA names the folder of the data sets.
Protocols with published numbers (US network, AQI-36, GraphTRSS) are experiments: `nareg reproduce time-all`.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from _spacetime import points

PROTOCOLS = ("stranger", "bands", "faults", "stream", "placement")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, help="files, draws or masks (default: the protocol's)")
    parser.add_argument("--out", type=Path, default=Path("spacetime-results"))
    parser.add_argument("--fresh", action="store_true", help="compute everything again")
    options = parser.parse_args()
    protocol = importlib.import_module(f"_spacetime.{options.protocol}").PROTOCOL
    for method in options.methods or ():
        if method not in protocol.methods:
            parser.error(
                f"--methods {method!r} is not in {protocol.name}; choose from {', '.join(map(repr, protocol.methods))}."
            )
    points.run(protocol, options, options.out)


if __name__ == "__main__":
    main()
