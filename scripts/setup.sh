#!/usr/bin/env bash
# Installs what a step of the Makefile needs and this machine lacks, or says in one line what to install.
# usage: setup.sh base | python | check | test | blas | deny | programs | fio | direct | guest | cross | emulated | maven |
#        venv DIR REQUIREMENTS | download URL SHA256 FILE
set -euo pipefail
cd "$(dirname "$0")/.."
# Where rustup puts compilers; the Makefile looks there, too.
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
[ "$(uname -s)" = Linux ] || die "Warmset runs on Linux only, and this is $(uname -s); a virtual machine with Linux will do"
is_root() { [ "$(id -u)" = 0 ]; }

# Whether the second version is the first or newer.
at_least() { printf '%s\n' "$1" "${2%%-*}" | sort -CV; }

# Installs Debian packages as root; otherwise names them.
packages() {
    [ $# -gt 0 ] || return 0
    has apt-get || die "please install the equivalents of: $*"
    is_root || die "please run: sudo apt-get install --no-install-recommends $*"
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

rust_version() {
    rustc --version 2>/dev/null | cut -d ' ' -f 2
}

# Installs this system's Rust if it is new enough, else rustup's if that can be reached.
install_rust() {
    local needed=$1 candidate init
    apt-get update -qq >&2
    candidate=$(apt-cache policy rustc | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
    if [ -n "$candidate" ] && at_least "$needed" "$candidate"; then
        packages rustc cargo
        return
    fi
    has curl || packages curl ca-certificates
    say "installing Rust from https://static.rust-lang.org: this system's packages have ${candidate:-none}"
    init=$(mktemp -d)/rustup-init
    curl --proto '=https' --connect-timeout 20 -fsSL -o "$init" \
        "https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init" || return 0
    chmod +x "$init"
    "$init" -y --quiet --no-modify-path --profile minimal >&2 || return 0
    say "for cargo in your own shell: . ${CARGO_HOME:-$HOME/.cargo}/env"
}

# What keeps Rust from being used here, in one line; nothing where it is new enough for this workspace. A Rust that is
# there is its owner's.
rust_problem() {
    local needed found wanted
    needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    wanted="please install Rust $needed or newer (https://rustup.rs)"
    if ! has rustc && is_root && has apt-get; then
        install_rust "$needed"
    fi
    found=$(rust_version) || true
    if [ -z "$found" ] || ! cargo --version >/dev/null 2>&1; then
        echo "$wanted; there is no cargo and rustc that work on the PATH"
    elif ! at_least "$needed" "$found"; then
        echo "$wanted; the rustc on the PATH is $found"
    fi
}

# The first Python on the PATH that is new enough; Ubuntu 22.04's `python3` is 3.10, with python3.11 beside it.
python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if has "$name" && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

# The packages of a Python that is new enough and can make virtual environments; none where there is one.
python_packages() {
    local name
    if name=$(python); then
        "$name" -c 'import ensurepip, venv' 2>/dev/null || echo "$name-venv"
    elif ! has apt-cache || [ "$(apt-cache show python3.11 2>/dev/null | head -c 1)" ]; then
        echo python3.11 python3.11-venv
    else
        echo python3 python3-venv
    fi
}

# Names everything that is missing at once, where it cannot be installed.
base() {
    local missing=() problems=() problem
    is_root && has apt-get && { has javac && python >/dev/null || apt-get update -qq >&2; }
    has cc || missing+=(build-essential)
    has make || missing+=(make)
    has git || missing+=(git)
    # shellcheck disable=SC2046 # Words are packages.
    missing+=($(python_packages))
    if ! has javac || [ "$(java_major)" -lt 17 ]; then missing+=("$(jdk_package)"); fi
    has mvn || missing+=(maven)
    if [ ${#missing[@]} -gt 0 ] && is_root && has apt-get; then
        packages "${missing[@]}"
        python >/dev/null || problems+=("please install Python 3.11 or newer: this system's packages have none")
    elif [ ${#missing[@]} -gt 0 ] && has apt-get; then
        problems+=("please run: sudo apt-get install --no-install-recommends ${missing[*]}")
    elif [ ${#missing[@]} -gt 0 ]; then
        problems+=("please install the equivalents of: ${missing[*]}")
    fi
    problem=$(rust_problem)
    [ -z "$problem" ] || problems+=("$problem")
    [ ${#problems[@]} -eq 0 ] && return
    for problem in "${problems[@]}"; do say "$problem"; done
    mapfile -t missing < <(test_packages; direct_packages; has qemu-system-x86_64 || echo qemu-system-x86)
    is_root || [ ${#missing[@]} -eq 0 ] || say "the tests (make test) use as well: ${missing[*]}"
    exit 1
}

has_rust_tools() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1
}

check_tools() {
    base
    has_rust_tools && return
    if has rustup; then
        rustup component add rustfmt clippy >&2 || true
    elif [ "$(command -v rustc)" = /usr/bin/rustc ]; then
        packages rustfmt rust-clippy
    fi
    has_rust_tools || die "please install rustfmt and clippy for the rustc on the PATH (with rustup: rustup component add rustfmt clippy)"
}

# The tab in the Spark UI is tested in a headless browser; the README's commands use jq.
test_packages() {
    has jq || echo jq
    if ! has chromium && ! has chromium-browser && ! has google-chrome; then
        # Ubuntu's packages of this name only lead to a snap, which brings its own driver.
        if [ "$(. /etc/os-release && echo "$ID")" = ubuntu ]; then echo chromium-browser; else echo chromium; echo chromium-driver; fi
    elif has chromium && ! has chromedriver && [ "$(command -v chromium)" = /usr/bin/chromium ]; then
        echo chromium-driver
    fi
}

test_tools() {
    # shellcheck disable=SC2046 # Words are packages.
    packages $(test_packages)
}

has_blas() {
    python3 -c 'import ctypes; ctypes.CDLL("libblas.so.3")' 2>/dev/null
}

# MLlib's products of matrices are a third faster with it, for every engine that is compared.
blas() {
    has_blas && return
    if has apt-get && is_root; then
        packages libopenblas0-pthread
    fi
    has_blas || say "there is no libblas.so.3 (Debian: libopenblas0-pthread): MLlib computes in Java"
}

# What the benchmarks of warm starts start, and a baseline. A program that is missing is named there and left out.
programs() {
    local package missing=()
    for package in r-base-core r-cran-ggplot2 octave chromium libreoffice-writer-nogui texlive-latex-base postgresql \
        gdb nodejs npm vmtouch; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    if ! { has apt-get && is_root; }; then
        say "some of these may be missing: the benchmarks of warm starts leave them out: ${missing[*]}"
    else
        # Runlevel 1: no database server is started for it.
        RUNLEVEL=1 packages "${missing[@]}"
    fi
    venv target/launch-venv bench/loading/requirements.txt
}

# The newest signed cloud kernel of Linux 6.12 that this system's packages have.
guest_kernel_package() {
    apt-cache pkgnames linux-image-6.12 | grep -E '^linux-image-6\.12[0-9.]*.*-cloud-amd64$' |
        grep -v '^linux-image-6\.12-cloud' | sort -V | tail -n 1
}

# A kernel for a virtual machine, which nobody boots here: it is taken out of its package, not installed.
guest_kernel() {
    local package directory
    package=$(guest_kernel_package)
    [ -n "$package" ] || { say "there is no linux-image-6.12*-cloud-amd64: the tests in a virtual machine are skipped"; return 0; }
    directory=$(mktemp -d)
    say "fetching $package"
    (cd "$directory" && apt-get -o APT::Sandbox::User=root download -qq "$package" >&2 &&
        dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz*')
    mkdir -p target/guest
    cp "$directory"/boot/vmlinuz* target/guest/vmlinuz
    rm -r "$directory"
}

# What the tests of `warmset tier` boot; without it they are skipped.
guest() {
    base
    if ! has apt-get || ! is_root || [ "$(uname -m)" != x86_64 ]; then
        say "the tests in a virtual machine need qemu-system-x86_64 and a kernel in target/guest/vmlinuz"
        return
    fi
    has qemu-system-x86_64 || packages qemu-system-x86
    [ -e target/guest/vmlinuz ] || { apt-get update -qq >&2; guest_kernel; }
    has rustup && rustup target add x86_64-unknown-linux-musl >&2 || true
}

# The compiler's libraries for both architectures of a release.
cross() {
    local target
    base
    for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
        [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && continue
        has rustup || die "please install Rust's standard library for $target; with rustup: rustup target add $target"
        rustup target add "$target" >&2
    done
    has readelf || packages binutils
}

# An emulator of AArch64 and Debian's Python and C++ library for it, unpacked below target/aarch64 and not installed; without them the
# tests of the wheel for AArch64 are skipped.
emulated() {
    local at=$PWD/target/aarch64 suite apt package
    suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || suite=
    if [ -z "$suite" ] || [ "$(uname -m)" != x86_64 ]; then
        say "the tests of the wheel for AArch64 take qemu-user-static and a Python from Debian on x86-64, and this is another system"
        return 0
    fi
    rm -rf "$at"
    mkdir -p "$at/apt/lists/partial" "$at/apt/cache/archives/partial" "$at/root"
    : >"$at/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$at/apt/list"
    # Its own lists and state: nothing of this system's packages changes.
    apt=(-qq -o "Dir::State=$at/apt" -o "Dir::State::status=$at/apt/status" -o "Dir::Cache=$at/apt/cache"
        -o "Dir::Etc::SourceList=$at/apt/list" -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root)
    say "fetching qemu-user-static and Python for AArch64"
    (cd "$at/apt" && apt-get "${apt[@]}" update >&2 && apt-get "${apt[@]}" download qemu-user-static >&2)
    dpkg-deb --fsys-tarfile "$at"/apt/qemu-user-static*.deb | tar -x -C "$at" ./usr/bin/qemu-aarch64-static
    apt+=(-o APT::Architecture=arm64 -o APT::Architectures=arm64)
    apt-get "${apt[@]}" update >&2
    apt-get "${apt[@]}" install -y --no-install-recommends --download-only python3 libstdc++6 >&2
    for package in "$at"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$at/root"; done
    rm -r "$at/apt"
}

# What the benchmark of the direct path drives.
fio_packages() {
    local package
    for package in fio sqlite3; do has "$package" || echo "$package"; done
}

fio_and_sqlite() {
    # shellcheck disable=SC2046 # Words are packages.
    packages $(fio_packages)
}

# What the tests of the direct path run on it; those whose program is missing are skipped by name.
direct_packages() {
    fio_packages
    has go || echo golang-go
    # pjdfstest is linked with it.
    [ -e /usr/include/sys/acl.h ] || echo libacl1-dev
}

direct_tools() {
    local tool missing
    base
    mapfile -t missing < <(direct_packages)
    if has apt-get && is_root; then
        packages "${missing[@]}"
    elif [ ${#missing[@]} -gt 0 ]; then
        say "some tests of the direct path are skipped without: ${missing[*]}"
    fi
    for tool in fsx@0.3.2 pjdfstest@0.2.2; do
        [ -x "target/direct-tools/bin/${tool%@*}" ] && continue
        say "building $tool"
        CARGO_TARGET_DIR=target/direct-tools/build cargo install --quiet --locked --root target/direct-tools "$tool" ||
            say "$tool could not be built: its tests are skipped"
    done
}

deny() {
    local version=0.20.2
    base
    cargo deny --version >/dev/null 2>&1 && return
    # The last one that older compilers build; it cannot read newer advisories, which licences.sh says.
    at_least 1.88 "$(rust_version)" || version=0.18.3
    say "building cargo-deny $version"
    # It runs for seconds: optimised, it takes longer to build.
    CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --locked --debug "cargo-deny@$version"
}

maven() {
    say "fetching what the Spark module is built with"
    mvn -B -ntp -q -f spark/pom.xml -DskipTests dependency:go-offline >&2
}

venv() {
    local dir=$1 requirements=$2
    say "installing $requirements into $dir"
    [ -x "$dir/bin/python" ] || "$(python)" -m venv "$dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
}

# One file with a known checksum. A mirror may say at times that it does not have what it has.
download() {
    local url=$1 sha256=$2 file=$3
    has curl || packages curl ca-certificates
    say "fetching $url"
    mkdir -p "$(dirname "$file")"
    curl --proto '=https' --connect-timeout 20 --retry 5 --retry-all-errors -fsSL -o "$file.part" "$url" >&2 ||
        die "could not fetch $url; put that file at $file, or run this again"
    if [ "$(sha256sum "$file.part" | cut -d ' ' -f 1)" != "$sha256" ]; then
        rm "$file.part"
        die "$url has another SHA-256 than $sha256: it is not what was published; nothing was kept"
    fi
    mv "$file.part" "$file"
}

case ${1:-} in
    base) base ;;
    python) python ;;
    check) check_tools ;;
    test) test_tools ;;
    blas) blas ;;
    deny) deny ;;
    programs) programs ;;
    fio) fio_and_sqlite ;;
    direct) direct_tools ;;
    guest) guest ;;
    cross) cross ;;
    emulated) emulated ;;
    maven) maven ;;
    venv) venv "$2" "$3" ;;
    download) download "$2" "$3" "$4" ;;
    *) die "there is no step '${1:-}': the head of scripts/setup.sh lists them" ;;
esac
