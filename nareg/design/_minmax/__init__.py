"""Min-max designs (31)-(32), and certified bounds on the worst case of any weights."""
