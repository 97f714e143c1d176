"""One reader a kind of source; each turns what it reads into a manifest."""
