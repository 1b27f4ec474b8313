#!/bin/sh
# make_venv.sh PYTHON FOLDER: create an empty environment in FOLDER, or print what is missing.
set -eu
python=$("$(dirname "$0")/find_python.sh" "$1")
folder=$2
echo "setting up $folder with $("$python" --version) (once; later runs start at once)"
if ! problem=$("$python" -m venv --clear "$folder" 2>&1); then
    rm -rf "$folder"
    echo "$problem" >&2
    echo "'$python -m venv' failed. On Debian and Ubuntu: apt-get install python3-venv." >&2
    exit 1
fi
