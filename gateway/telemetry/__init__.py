"""What a request tells of itself: timeline, spans, metrics, log line. OpenTelemetry is known here only."""
