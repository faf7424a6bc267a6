"""A comparison of two HTTP clients; `python -m bench.upstream_clients`."""
