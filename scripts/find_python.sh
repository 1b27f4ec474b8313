#!/bin/sh
# find_python.sh [PYTHON]: print the interpreter for new environments. A PYTHON that you name is used or refused. If
# the default python3 is too old, the newest of the usual names is used. Each is run, not only looked up, because a
# version manager's shim may exist without its Python.
set -u
asked=${1:-python3}
others=
[ "$asked" = python3 ] && others="python3.13 python3.12 python3.11"
for candidate in "$asked" $others; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        echo "$candidate"
        exit 0
    fi
done
found=$("$asked" -c 'import sys; print("Python %d.%d" % sys.version_info[:2])' 2>/dev/null) || found="not found"
echo "Concordant needs Python 3.11 or newer. '$asked' is: $found." >&2
echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
