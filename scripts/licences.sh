#!/usr/bin/env bash
# Licences, bans and sources of all crates; known vulnerabilities too where the advisory database can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo deny --locked --log-level error check licenses bans sources
if timeout 60 cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked --log-level error check advisories
else
    echo "SKIPPED cargo deny check advisories: the advisory database, a git repository, cannot be reached from here" >&2
fi
