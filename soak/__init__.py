"""Load, watch and judge: does it stay up and flat? Not built yet."""
