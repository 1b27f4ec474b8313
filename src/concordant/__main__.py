"""`python -m concordant` is the command `concordant`."""

from concordant.cli.app import main

if __name__ == "__main__":
    main()
