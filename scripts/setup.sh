#!/usr/bin/env bash
# Installs what a step of the Makefile needs and this machine lacks, or says in one line what to install.
# usage: setup.sh base | test | deny | maven | venv DIR REQUIREMENTS
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# Installs Debian packages as root; otherwise names them.
packages() {
    [ $# -gt 0 ] || return 0
    has apt-get || die "please install the equivalents of: $*"
    [ "$(id -u)" = 0 ] || die "please run: sudo apt-get install --no-install-recommends $*"
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The oldest JDK that is known to work and that this system offers.
jdk_package() {
    local version
    for version in 17 21; do
        if apt-cache show "openjdk-$version-jdk-headless" >/dev/null 2>&1; then
            echo "openjdk-$version-jdk-headless"
            return
        fi
    done
    echo default-jdk-headless
}

java_major() {
    javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'
}

# Fails with one line unless Rust is new enough for this workspace and has what `make check` runs.
rust() {
    local needed found
    needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    found=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || true
    local wanted="please install Rust $needed or newer with rustfmt and clippy (https://rustup.rs)"
    [ -n "$found" ] && cargo --version >/dev/null 2>&1 || die "$wanted; there is no cargo and rustc that work on the PATH"
    printf '%s\n' "$needed" "${found%%-*}" | sort -CV || die "$wanted; the rustc on the PATH is $found"
    cargo fmt --version >/dev/null 2>&1 || die "$wanted; rustfmt is missing"
    cargo clippy --version >/dev/null 2>&1 || die "$wanted; clippy is missing"
}

base() {
    local missing=()
    has cc || missing+=(build-essential)
    has make || missing+=(make)
    has git || missing+=(git)
    has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
    if ! has javac || [ "$(java_major)" -lt 17 ]; then
        [ "$(id -u)" = 0 ] && has apt-get && apt-get update -qq >&2
        missing+=("$(jdk_package)")
    fi
    has mvn || missing+=(maven)
    packages "${missing[@]}"
    rust
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "please install Python 3.11 or newer"
}

# The tab in the Spark UI is tested in a headless browser; the README's commands use jq.
test_tools() {
    local missing=()
    has chromium || missing+=(chromium)
    has chromedriver || missing+=(chromium-driver)
    has jq || missing+=(jq)
    packages "${missing[@]}"
}

deny() {
    base
    cargo deny --version >/dev/null 2>&1 || { say "building cargo-deny"; cargo install --quiet --locked cargo-deny@0.20.2; }
}

maven() {
    say "fetching what the Spark module is built with"
    mvn -B -ntp -q -f spark/pom.xml -DskipTests dependency:go-offline >&2
}

venv() {
    local dir=$1 requirements=$2
    say "installing $requirements into $dir"
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
}

case ${1:-} in
    base) base ;;
    test) test_tools ;;
    deny) deny ;;
    maven) maven ;;
    venv) venv "$2" "$3" ;;
    *) die "usage: setup.sh base | test | deny | maven | venv DIR REQUIREMENTS" ;;
esac
