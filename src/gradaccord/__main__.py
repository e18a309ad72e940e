"""`python -m gradaccord` is the command line."""

from gradaccord.cli import main

main()
