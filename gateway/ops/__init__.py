"""What operators ask of the gateway beside serving: explanations, reports."""
