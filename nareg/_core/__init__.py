"""What every part stands on: the border checks, arrays and namespaces, compiled loops, memory, processes."""
