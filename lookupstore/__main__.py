"""Run the command line, as `lookupstore` or `python -m lookupstore`."""

from lookupstore.interrupts import end_quietly


def main() -> None:
    """Run a command, and exit."""
    end_quietly()
    from lookupstore.cli import main as run

    run()


if __name__ == "__main__":
    main()
