"""What is right: float64, obvious, slow."""
