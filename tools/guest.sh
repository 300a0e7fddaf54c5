#!/usr/bin/env bash
# Boots kernels of Debian's under software emulation; for other scripts to source, from the folder above. The guest sees this
# machine's files read-only, so that the programs of this machine run there. What was downloaded stays in build/qdisc-vm; to take a
# newer kernel, delete that folder.
#
# usage: suite=sid release= # such as trixie-backports 6.17.13+deb13-amd64; without a release, the suite's newest
#        . tools/guest.sh
#        prepare
#        guest SECONDS COMMAND...
# A script that boots several guests side by side sets `boot_folder`, one for each.
# shellcheck disable=SC2154 # suite and release are set by the script that sources this one
PATH=$PATH:/usr/sbin:/sbin
work=$PWD/build/qdisc-vm/$suite${release:+-$release}
kernel=$work/kernel/usr
run=${boot_folder:-$work} # what is made for a boot
results=$run/results     # the only folder of this machine that the guest can write to

prepare() {
  (umask 022 && mkdir -p "${work%/*}" "$run")
  # Root runs what is there.
  [[ -O ${work%/*} && -z $(find "${work%/*}" -maxdepth 0 -perm /022) ]] || fail "${work%/*}: another user can write to it"
  # One at a time: others wait until it is there.
  (
    flock 9
    [[ -e $kernel/complete ]] || get_kernel
  ) 9>"${work%/*}/lock"
  version=$(ls "$kernel/lib/modules")
  make_initrd
}

# An apt of our own: that of this machine stays as it is.
get_kernel() {
  rm -rf "$work"
  mkdir -p "$work"/apt/{state/lists,cache/archives}/partial
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
  rm -rf "$run/initrd"
  mkdir -p "$run"/initrd/{bin,host,over,results,root}
  cp "$(command -v busybox)" "$run/initrd/bin/"
  modules "$run/initrd" 9pnet_virtio 9p overlay >"$run/initrd/load"
  cat >"$run/initrd/init" <<'END'
#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox --install /bin
mkdir -p /proc && mount -t proc proc /proc
[ ! -e /sealed ] || . /sealed
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
mount -t 9p -o trans=virtio,version=9p2000.L results /results
[ ! -e /sealed.results ] || cp /sealed.results/* /results
results=$(cat /results/folder)
mount -o bind /results "/root$results"
chroot /root /bin/sh "$results/command" >/root/dev/ttyS0 2>&1
echo $? >"/root$results/status"
echo 0 >/proc/sys/kernel/printk
poweroff -f
END
  chmod +x "$run/initrd/init"
  archive "$run/initrd" >"$run/initrd.gz"
}

# modules FOLDER NAME...: puts them, and those that they need, into FOLDER of an initrd; prints the commands that load them.
modules() {
  local module folder=$1/modules
  shift
  mkdir -p "$folder"
  modprobe --dirname="$kernel" --set-version="$version" --show-depends --all "$@" |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
    xz --decompress --stdout "$module" >"$folder/$(basename "$module" .xz)"
    echo "insmod /modules/$(basename "$module" .xz)"
  done
}

# The same files give the same bytes.
archive() {
  find "$1" -exec touch --no-dereference --date=@0 {} +
  (cd "$1" && find . | LC_ALL=C sort | cpio --quiet --reproducible --owner=0:0 -o -H newc | gzip -1)
}

# guest SECONDS COMMAND…: boots, runs it and fails as it does. A script can set `machine`, `boot` and `initrd`.
machine=(-accel "tcg,thread=multi" -smp 2)
boot=
initrd=$run/initrd.gz
guest() {
  local limit=$1 status
  shift
  mkdir -p "$results"
  rm -f "$results"/*
  echo "$@" >"$results/command"
  echo "$results" >"$results/folder"
  # In the foreground it is interrupted as this script is.
  timeout --foreground "$limit" qemu-system-x86_64 "${machine[@]}" -cpu max -m 1024 -nodefaults -no-reboot -display none \
    -kernel "$kernel/vmlinuz" -initrd "$initrd" -serial stdio \
    -append "console=ttyS0 quiet panic=-1 $boot" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path="$results",mount_tag=results,security_model=none,multidevs=remap \
    </dev/null || fail "qemu failed, or the guest did not end within $limit s"
  status=$(cat "$results/status" 2>/dev/null) || fail "the guest ended early"
  ((status == 0)) || fail "the guest's command failed"
}

# seal FILE…: begins $sealed, the files of a guest that sees nothing of this machine until its script has ended: these, where they
# are here, and the libraries that they need.
seal() {
  local libraries file
  sealed=$run/sealed
  rm -rf "$sealed"
  mkdir -p "$sealed"/{dev,sys,run,tmp,sealed.results}
  mapfile -t libraries < <(ldd "$@" 2>/dev/null | sed -n 's/[^/]*\(\/[^ ]*\) (0x.*/\1/p' | sort -u)
  for file in "$@" "${libraries[@]}"; do cp --parents --dereference "$file" "$sealed"; done
}

# sealed_guest SECONDS SCRIPT [BOOT]: boots with the files of $sealed and runs the script of the guest's shell, in virtual time; its
# files in /sealed.results become results. Neither this machine's load nor its speed reaches the guest: the same files and the same
# boot parameters give the same results, random numbers included.
sealed_guest() {
  {
    cat "$sealed/sealed.modules"
    echo "mount -t devtmpfs dev /dev"
    echo "mount -t sysfs sys /sys"
    echo "mount -t tracefs trace /sys/kernel/tracing"
    echo "{ $2; } >/dev/ttyS0 2>&1 || poweroff -f"
  } >"$sealed/sealed"
  archive "$sealed" >"$run/sealed.gz"
  cat "$run/initrd.gz" "$run/sealed.gz" >"$run/both.gz"
  # One instruction takes a nanosecond, idle time none. Without a recording, timers can run some instructions earlier or later.
  local machine=(-accel "tcg,thread=single" -smp 1 -seed 1 -rtc "base=2026-01-01,clock=vm"
    -icount "shift=0,sleep=off,rr=record,rrfile=$run/recording")
  local initrd=$run/both.gz boot="tsc=reliable clocksource=tsc ${3:-}"
  guest "$1" true
}

fail() {
  echo "${0##*/}: $1" >&2
  exit 1
}
