"""Memory that this process may still take: that of the machine, of its control groups, and of its own limits.

A container or a batch job has less than its machine. Linux ends a process that takes more than its control group may; an
allocation beyond ``ulimit -v`` fails in the middle of the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Share of the machine's memory that one piece of work may take.
SHARE = 0.8


def room(reserved: float = 1.0, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> tuple[float, str]:
    """Bytes that may still be taken, and whose limit that is; infinity where no system tells.

    ``reserved`` is how many addresses the work takes per byte: ``ulimit -v`` counts those that are never written, too.
    """
    limits = [(SHARE * total, f"this machine has {_gib(total)}") for total in _total()]
    limits += [(free, f"{_gib(free)} of this machine's memory are free") for free in _available(proc)]
    for free, limit in _groups(proc, groups):
        limits.append((free, f"the control group of this process allows {_gib(limit)}, of which {_gib(free)} are free"))
    for free, limit in _addresses(proc):
        text = f"this process may take {_gib(limit)} of addresses (ulimit -v), of which {_gib(free)} are free"
        limits.append((free / reserved, text))
    return min(limits, default=(float("inf"), ""))


def _gib(n_bytes: float) -> str:
    return f"{max(n_bytes, 0) / 2**30:.1f} GiB"


def _total() -> Iterator[float]:
    with suppress(AttributeError, ValueError, OSError):
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _available(proc: Path) -> Iterator[float]:
    """What Linux could give without swapping."""
    with suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024.0 * int(line.split()[1])


def _groups(proc: Path, groups: Path) -> Iterator[tuple[float, float]]:
    """Free bytes and limits of the control groups that hold this process, of both versions; files in a cache are free."""
    with suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                root, names = groups, ("memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                root, names = groups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            else:
                continue
            # in a container the path may be that outside of it, and only the top is there
            inside = Path(path.lstrip("/"))
            for folder in (inside, *inside.parents):
                with suppress(OSError, ValueError):  # no such group, or "max"
                    limit = int((root / folder / names[0]).read_text())
                    used = int((root / folder / names[1]).read_text())
                    yield float(limit - max(used - _cached(root / folder, names[2]), 0)), float(limit)


def _cached(folder: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _addresses(proc: Path) -> Iterator[tuple[float, float]]:
    """What ``RLIMIT_AS`` leaves to this process."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int((proc / "self" / "statm").read_text().split()[0]) if (proc / "self" / "statm").exists() else 0
            yield float(limit - pages * resource.getpagesize()), float(limit)
