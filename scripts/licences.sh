#!/usr/bin/env bash
# Licences, bans and sources of all crates; known vulnerabilities too where the advisory database can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo deny --locked --log-level error check licenses bans sources
version=$(cargo deny --version | cut -d ' ' -f 2)
if ! printf '%s\n' 0.18.9 "$version" | sort -CV; then
    echo "SKIPPED cargo deny check advisories: cargo-deny $version cannot read all of them; with Rust 1.88 or newer:" \
        "cargo install --locked cargo-deny" >&2
elif timeout 60 cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked --log-level error check advisories
else
    echo "SKIPPED cargo deny check advisories: the advisory database, a git repository, cannot be reached from here" >&2
fi
