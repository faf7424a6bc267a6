"""The handlers of the data plane: what application teams call under `/v1`, and the health checks."""
