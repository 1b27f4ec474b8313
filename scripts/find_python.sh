#!/bin/sh
# Prints the interpreter to build environments with: the one asked for, else the newest of the usual names.
# It is tried and not only looked up, because a version manager's shim may exist without its Python.
set -u
asked=${1:-python3}
for candidate in "$asked" python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        echo "$candidate"
        exit 0
    fi
done
found=$("$asked" --version 2>&1 | head -n 1)
echo "Concordant needs Python 3.11 or newer. '$asked' is: ${found:-not found}." >&2
echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
