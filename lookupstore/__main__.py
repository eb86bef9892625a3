"""Run the command line, as `lookupstore` or `python -m lookupstore`."""

from lookupstore.interrupts import quiet_interrupts


def main() -> None:
    """Run a command, and exit."""
    with quiet_interrupts():
        from lookupstore.cli import main as run
    run()


if __name__ == "__main__":
    main()
