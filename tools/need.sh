#!/usr/bin/env bash
# Finds out what a target of the Makefile needs, and installs what is missing: Debian packages if root runs it, parts of Rust
# with rustup, .venv with what builds the module. What Python needs beyond that, pyproject.toml says.
#
# usage: tools/need.sh demo|build|test-LAYER|lint|wheel|validate|bench|profile|page|fresh|qdisc|record-qdiscs|virtual-kernel
#
# Fails if the target can do nothing without what is still missing. Of anything else a line says what will be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
python=${PYTHON:-python3}
tests=test-unit,test-integration,test-system,test-papers
compiled=demo,build,$tests,lint,wheel,validate,bench,page
guest=qdisc,record-qdiscs,virtual-kernel
agent=build,test-integration,test-system,lint,validate
# rustup and Debian put programs where the PATH of ordinary users may not lead.
PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin

# need TARGETS PROGRAM PACKAGES [WHAT IS SKIPPED WITHOUT IT]; a package without a program is known by one of its files.
list() {
  need $compiled cc          "gcc libc6-dev"
  need $compiled "$python"   python3
  need $agent    clang       clang         "the agent"
  need $agent    pkg-config  pkgconf       "the agent"
  need $agent    /usr/include/libelf.h libelf-dev "the agent"
  need $agent    /usr/include/zlib.h zlib1g-dev "the agent"
  need test-system ip          iproute2      "tests of the router"
  need test-system bpftool     bpftool       "the agent under load"
  need test-system nginx       nginx-light   "tests with nginx"
  need test-integration,test-system tcpdump     tcpdump       "tests with tcpdump"
  need test-system nft         nftables      "tests of the way out"
  need test-system dnsmasq     dnsmasq-base  "tests of the way out"
  need test-system slirp4netns slirp4netns   "tests of the way out"
  need test-system pasta       passt         "tests of the way out"
  need test-integration,test-system tshark      tshark        "tests with tshark"
  need test-system,test-papers chromium chromium "tests with a browser"
  need test-system curl        curl          "tests that record sites"
  need test-system openssl     openssl       "tests that record sites"
  need test-system nghttp      nghttp2-client "tests with HTTP/2"
  need test-system slurmctld   "slurmctld slurmd munge" "tests with Slurm"
  need test-papers valgrind    valgrind      "the count of instructions"
  need page,test-papers,wheel node   nodejs        "the page with the simulator"
  need page,test-papers,wheel npm    npm           "the page with the simulator"
  need validate  tcpdump     tcpdump
  need validate  nginx       nginx-light
  need validate  apache2     apache2-bin
  need bench     ns          ns2           "ns-2"
  need bench     g++         g++           "ns-3"
  need bench     /usr/include/ns3/core-module.h libns3-dev "ns-3"
  need profile   perf        linux-perf
  need fresh     debootstrap debootstrap
  need $guest    "$python"   python3
  need $guest    qemu-system-x86_64 qemu-system-x86
  need qdisc     clang-19    clang-19
  need qdisc     /usr/include/bpf/bpf_helpers.h libbpf-dev
  need qdisc     bpftool     bpftool
  need $guest    busybox     busybox-static
  need $guest    cpio        cpio
  need $guest    xz          xz-utils
  need $guest    depmod      kmod
  need $guest    tc          iproute2
  # Debian keeps the part of Python that makes virtual environments in a package of its own.
  if is_for $compiled && has "$python" && ! has_venv; then
    lacks "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" "$in_python"
  fi
}
# Tests in Rust need no Python packages.
in_python=$([[ $target != test-* ]] || echo "tests in Python")

main() {
  look
  if ((${#packages[@]})) && install_packages; then look; fi
  if is_for $compiled; then
    has cargo || misses "Rust: not installed, take it from https://rustup.rs"
    [[ $target != lint ]] || install_parts_of_rust rustfmt clippy
    [[ $target != wheel ]] || install_parts_of_rust llvm-tools
    [[ ! $target =~ ^(page|test-papers|wheel)$ ]] || install_parts_of_rust wasm32-unknown-unknown
    ((${#fatal[@]})) || ! has_venv || make_venv
  fi
  local line
  for line in "${skipped[@]}"; do
    echo "will be skipped: $line"
    # All other tests find out by themselves.
    [[ $target != test-* || $line != "$in_python"* ]] || echo "pytest::all: ${line#*, }" >>"${CATNIP_SKIPPED:-/dev/null}"
  done
  for line in "${fatal[@]}"; do echo "make $target: $line" >&2; done
  ((${#fatal[@]} == 0))
}

look() {
  packages=() skipped=() fatal=()
  list
}

need() { ! is_for "$1" || has "$2" || lacks "$3" "${4:-}"; }

is_for() { [[ ,$1, == *,$target,* ]]; }

has() { command -v "$1" >/dev/null || [[ $1 == /* && -e $1 ]]; }

has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

# lacks PACKAGES [WHAT IS SKIPPED]
lacks() {
  local names
  read -ra names <<<"$1"
  packages+=("${names[@]}")
  misses "$1 is not installed (as root: apt-get install $1)" "${2:-}"
}

# misses WHY [WHAT IS SKIPPED]
misses() { if [[ ${2:-} ]]; then skipped+=("$2, $1"); else fatal+=("$1"); fi; }

install_packages() {
  if ((EUID)) || ! has apt-get; then return 1; fi
  echo "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local install=(apt-get -qq install --yes --no-install-recommends) name
  apt-get -qq update || true
  # One that cannot be had must not keep the others away.
  "${install[@]}" "${packages[@]}" >/dev/null ||
    for name in "${packages[@]}"; do "${install[@]}" "$name" >/dev/null || true; done
}

# With what builds the module; all else that Python needs, tools/packages.sh installs while it is built.
make_venv() {
  [[ -x .venv/bin/maturin ]] && return
  "$python" -m venv .venv
  .venv/bin/pip install --quiet --constraint tools/python.lock maturin ||
    misses "pip cannot install maturin" "$in_python"
}

install_parts_of_rust() {
  local part kind what
  for part; do
    # Without profiles a wheel is only slower.
    case $part in
      llvm-tools) kind=component what="the wheel's profile" ;;
      wasm32-*) kind=target what="the page with the simulator" ;;
      *) kind=component what= ;;
    esac
    has_part "$part" || rustup --quiet "$kind" add "$part" ||
      misses "$part is not installed (rustup $kind add $part)" "$what"
  done
}

has_part() {
  case $1 in
    wasm32-*) [[ -d $(rustc --print target-libdir --target "$1") ]] ;;
    llvm-tools) [[ -e $(rustc --print target-libdir)/../bin/llvm-profdata ]] ;;
    *) cargo "${1/rustfmt/fmt}" --version >/dev/null 2>&1 ;;
  esac
}

main
