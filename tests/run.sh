#!/usr/bin/env bash
# All tests. Installs the drivers that the tests speak through into a folder of their own, runs
# everything, and counts what was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${POSTERN_TEST_DRIVERS:-target/drivers}
mkdir -p "$venv"
python=$(command -v python3)
if ! PYTHONPATH="$venv/python" "$python" -c 'import psycopg, asyncpg' 2>/dev/null; then
    "$python" -m pip install --quiet --target "$venv/python" --upgrade 'psycopg[binary]' asyncpg
fi
if [ ! -d "$venv/node/node_modules/pg" ]; then
    mkdir -p "$venv/node"
    npm install --silent --no-audit --no-fund --prefix "$venv/node" pg
fi
export POSTERN_TEST_DRIVERS=$(cd "$venv" && pwd)

# Everything that a test skips is written here, loudly, and counted at the end.
export POSTERN_TEST_SKIPS=$(mktemp)
trap 'rm -f "$POSTERN_TEST_SKIPS"' EXIT

if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --no-fail-fast "$@"
else
    cargo test --locked --no-fail-fast "$@"
fi

skipped=$(wc -l <"$POSTERN_TEST_SKIPS")
[ "$skipped" -eq 0 ] || sed 's/^/skipped: /' "$POSTERN_TEST_SKIPS"
echo "tests skipped: $skipped"
