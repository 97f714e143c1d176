"""`python -m hotfire`."""

from hotfire.cli import main

main(prog_name="hotfire")
