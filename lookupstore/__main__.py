"""Run the command line as `python -m lookupstore`."""

from lookupstore.cli import main

main()
