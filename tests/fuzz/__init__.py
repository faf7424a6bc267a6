"""Fuzzing of what reads bytes from outside, guided by coverage: `make fuzz TARGET=sse SECONDS=60`."""
