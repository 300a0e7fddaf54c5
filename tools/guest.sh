#!/usr/bin/env bash
# Boots kernels of Debian's under software emulation; for other scripts to source, from the folder above. The guest sees this
# machine's files read-only, so that the programs of this machine run there. What was downloaded stays in build/qdisc-vm; to take a
# newer kernel, delete that folder.
#
# usage: suite=sid release= # such as trixie-backports 6.17.13+deb13-amd64; without a release, the suite's newest
#        . tools/guest.sh
#        prepare
#        guest SECONDS COMMAND...
# shellcheck disable=SC2154 # suite and release are set by the script that sources this one
PATH=$PATH:/usr/sbin:/sbin
work=$PWD/build/qdisc-vm/$suite${release:+-$release}
kernel=$work/kernel/usr
results=$work/results # the only folder of this machine that the guest can write to

prepare() {
  [[ -e $kernel/complete ]] || get_kernel
  version=$(ls "$kernel/lib/modules")
  make_initrd
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
  echo "${0##*/}: $1" >&2
  exit 1
}
