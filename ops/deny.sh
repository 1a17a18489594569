#!/usr/bin/env bash
# Licenses and sources of all dependencies, held against deny.toml.
# cargo-deny is used when it is installed; without it the licenses are read from cargo metadata.
set -euo pipefail
cd "$(dirname "$0")/.."

if cargo deny --version >/dev/null 2>&1; then
    exec cargo deny --locked check licenses sources bans
fi

cargo metadata --locked --format-version 1 | python3 ops/deny.py deny.toml
