#!/usr/bin/env bash
# Boots a kernel of Debian's under software emulation and runs tools/qdisc_guest.py there: the test of the BPF qdiscs, which need
# Linux 6.16 or newer. The guest sees this machine's files read-only, so that the programs of this machine run there. What was
# downloaded stays in build/qdisc-vm; to take a newer kernel, delete that folder.
#
# usage: tools/qdisc_vm.sh [SEED [SUITE [RELEASE]]], such as 1 trixie-backports 6.17.13+deb13-amd64; without: 1, sid, its newest
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
python=$(command -v "${PYTHON:-python3}")
seed=${1:-1} suite=${2:-sid} release=${3:-}
work=$PWD/build/qdisc-vm/$suite${release:+-$release}
kernel=$work/kernel/usr
results=$work/results # the only folder of this machine that the guest can write to
source=crates/agent/bpf/qdisc/catnip_good.bpf.c
# Seconds for a boot, of which one takes five, and for the test with it, which takes a hundred.
boot_limit=120 test_limit=300

main() {
  [[ -e $kernel/complete ]] || get_kernel
  version=$(ls "$kernel/lib/modules")
  make_initrd
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

# An apt of our own: that of this machine stays as it is.
get_kernel() {
  rm -rf "$work"
  mkdir -p "$results" "$work"/apt/{state/lists,cache/archives}/partial
  touch "$work/apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
    >"$work/apt/sources.list"
  cat >"$work/apt/apt.conf" <<END
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$work/apt/state";
Dir::State::Status "$work/apt/status";
Dir::Cache "$work/apt/cache";
APT::Sandbox::User "root";
END
  local -x APT_CONFIG=$work/apt/apt.conf
  apt-get -qq update || fail "Debian's list of packages cannot be had"
  release=${release:-$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p')}
  echo "getting Linux $release"
  # Kernels before 6.19 are a single package.
  local package packages
  mapfile -t packages < <(apt-cache pkgnames linux- | grep -xF "$(printf '%s\n' linux-{image,binary,modules}-"$release")")
  (cd "$work/apt" && apt-get -qq download "${packages[@]}") || fail "Linux $release cannot be had"
  for package in "$work"/apt/*.deb; do dpkg -x "$package" "${kernel%/*}"; done
  depmod --basedir="$kernel" "$release" 2>/dev/null
  find "${kernel%/*}" -name 'vmlinuz*' -exec ln {} "$kernel/vmlinuz" ';' -quit
  touch "$kernel/complete"
  rm -r "$work/apt"
}

# It holds what it takes to get at this machine's files.
make_initrd() {
  rm -rf "$work/initrd"
  mkdir -p "$work"/initrd/{bin,modules,host,over,root}
  cp "$(command -v busybox)" "$work/initrd/bin/"
  local module
  modprobe --dirname="$kernel" --set-version="$version" --show-depends --all 9pnet_virtio 9p overlay |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$work/modules"
  while read -r module; do
    xz --decompress --stdout "$module" >"$work/initrd/modules/$(basename "$module" .xz)"
    echo "insmod /modules/$(basename "$module" .xz)"
  done <"$work/modules" >"$work/initrd/load"
  cat >"$work/initrd/init" <<'END'
#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox --install /bin
mkdir -p /proc && mount -t proc proc /proc
. /load
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
mount -t tmpfs over /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work root /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t tracefs trace /root/sys/kernel/tracing
mount -t bpf bpf /root/sys/fs/bpf
mount -t devtmpfs dev /root/dev
mount -t tmpfs run /root/run
results=$(sed 's/.* results=\([^ ]*\).*/\1/' /proc/cmdline)
mount -t 9p -o trans=virtio,version=9p2000.L results "/root$results"
chroot /root /bin/sh "$results/command" >/root/dev/ttyS0 2>&1
echo $? >"/root$results/status"
echo 0 >/proc/sys/kernel/printk
poweroff -f
END
  chmod +x "$work/initrd/init"
  (cd "$work/initrd" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initrd.gz"
}

# guest SECONDS COMMAND…: boots, runs it and fails as it does.
guest() {
  local limit=$1 status
  shift
  rm -f "$results"/*
  echo "$@" >"$results/command"
  timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nodefaults -no-reboot -display none \
    -kernel "$kernel/vmlinuz" -initrd "$work/initrd.gz" -serial stdio \
    -append "console=ttyS0 quiet panic=-1 results=$results" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path="$results",mount_tag=results,security_model=none,multidevs=remap \
    </dev/null || fail "qemu failed, or the guest did not end within $limit s"
  status=$(cat "$results/status" 2>/dev/null) || fail "the guest ended early"
  ((status == 0)) || fail "the guest's command failed"
}

fail() {
  echo "qdisc: $1" >&2
  exit 1
}

main "$@"
