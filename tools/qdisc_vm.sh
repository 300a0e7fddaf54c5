#!/usr/bin/env bash
# Runs tools/qdisc_guest.py in a kernel of Debian's that tools/guest.sh boots: the test of the BPF qdiscs, which need Linux 6.16 or
# newer.
#
# usage: tools/qdisc_vm.sh [SEED [SUITE [RELEASE]]], such as 1 trixie-backports 6.17.13+deb13-amd64; without: 1, sid, its newest
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-python3}")
seed=${1:-1} suite=${2:-sid} release=${3:-}
source=crates/agent/bpf/qdisc/catnip_good.bpf.c
# Seconds for a boot, of which one takes five, and for the test with it, which takes a hundred.
boot_limit=120 test_limit=300
. tools/guest.sh

main() {
  prepare
  if [[ ! -e $work/vmlinux.h ]]; then
    guest $boot_limit cp /sys/kernel/btf/vmlinux "$results/btf"
    bpftool btf dump file "$results/btf" format c >"$work/vmlinux.h.part"
    mv "$work/vmlinux.h.part" "$work/vmlinux.h"
  fi
  grep -q '^struct bpf_sk_buff_ptr {' "$work/vmlinux.h" || fail "Linux $version knows no qdiscs in BPF (CONFIG_NET_SCH_BPF)"
  # Members of the kernel's types are structs without a name of their own: an extension of Microsoft's.
  clang-19 -O2 -g -Wall -Werror -Wno-microsoft-anon-tag -fms-extensions -target bpf -D__TARGET_ARCH_x86 \
    -I"$work" -c "$source" -o "$work/catnip_good.o"
  guest $test_limit modprobe --dirname="$kernel" veth '&&' \
    "$python" "$PWD/tools/qdisc_guest.py" "$work/catnip_good.o" "$seed"
}

main "$@"
