"""Does a sequence ever see its neighbours? Not built yet."""
