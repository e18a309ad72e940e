"""`python -m gradaccord` is the command line."""

from gradaccord.cli.app import main

main()
