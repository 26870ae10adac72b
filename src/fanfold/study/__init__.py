"""Studies: workloads by every scheme, what it costs, and what that means."""
