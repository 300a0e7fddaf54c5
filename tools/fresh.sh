#!/usr/bin/env bash
# Runs the two commands of the README, and the tests of the example, in a fresh clone on a bare Debian 12 that is made for it:
# the least that debootstrap makes, make, a C compiler, git and Python. Of this machine it has the kernel with its devices,
# Rust, and what a closed network may ask for: package sources, pip's configuration, certificates, proxies. No test may be
# skipped.
#
# usage: tools/fresh.sh [COMMAND…]    by default "make demo" "make test" "make example"
#
# FRESH_ROOT names a folder for the system that is kept, and used again if it is there. FRESH_UNDER is put before each command.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
refuse() {
  echo "make fresh: $1" >&2
  exit 2
}
((EUID == 0)) || refuse "only root can make a system"
[[ -x $CARGO_HOME/bin/cargo && -d $RUSTUP_HOME ]] || refuse "no Rust in $CARGO_HOME, which CARGO_HOME names"
[[ -z $(git status --porcelain) ]] || echo "what is not committed will not be in the clone"
if [[ ${1:-} != --inside ]]; then
  root=${FRESH_ROOT:-$(mktemp -d /var/tmp/catnip-fresh-XXXXXX)}
  [[ ${FRESH_ROOT:-} ]] || trap 'rm -rf "$root"' EXIT
  # Mounts end with their namespace, so that nothing of this machine is below the folder when it is removed.
  unshare --mount --propagation slave "$0" --inside "$root" "$@"
  exit
fi
root=$2
shift 2
commands=("$@")
((${#commands[@]})) || commands=("make demo" "make test" "make example")

under=()

main() {
  [[ -e $root/.bare ]] || make_system
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  lend "$CARGO_HOME" "$RUSTUP_HOME"
  in_system apt-get -qq update
  in_system apt-get -qq install --yes --no-install-recommends make gcc libc6-dev git python3 ca-certificates >/dev/null
  # After the package that brings others.
  copy /etc/ssl/certs/ca-certificates.crt /etc/pip.conf "$HOME/.config/pip"
  rm -rf "$root/srv/catnip"
  git clone --quiet . "$root/srv/catnip"
  read -ra under <<<"${FRESH_UNDER:-}"
  local command
  for command in "${commands[@]}"; do
    echo "== $command"
    in_system sh -c "cd /srv/catnip && $command"
  done
}

make_system() {
  echo "making a bare Debian in $root"
  debootstrap --variant=minbase bookworm "$root" >/dev/null
  # The folder becomes /, which servers that change their user must be able to enter.
  chmod 755 "$root"
  # Services of this machine would be those of the system.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  copy /etc/resolv.conf /etc/hosts /etc/apt/apt.conf.d /etc/apt/auth.conf.d
  if grep -q bookworm /etc/os-release; then
    rm -f "$root/etc/apt/sources.list"
    copy /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/keyrings /etc/apt/trusted.gpg.d
  fi
  touch "$root/.bare"
}

# copy PATH…: as it is here, if there is one
copy() {
  local path
  for path; do
    if [[ -e $path ]]; then
      mkdir -p "$root${path%/*}"
      cp -rLT "$path" "$root$path"
    fi
  done
}

lend() {
  local path
  for path; do
    mkdir -p "$root$path"
    mount --bind "$path" "$root$path"
  done
}

in_system() {
  local environment=() name
  local kept='^(PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|PROXY|TRUSTED_HOST)|(CARGO|RUSTUP)_HOME|CARGO_(HTTP|NET)_.*|SSL_CERT_.*'
  kept+='|.*_(proxy|PROXY))$'
  for name in $(compgen -e); do
    if [[ $name =~ $kept ]]; then environment+=("$name=${!name}"); fi
  done
  environment+=(HOME="$HOME" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive CATNIP_TESTS_MUST_RUN=1)
  environment+=(PATH="$CARGO_HOME/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
  # As its root, not by chroot: who is in one may have no user namespaces.
  # shellcheck disable=SC2016 # the shell inside expands them
  "${under[@]}" env -i "${environment[@]}" unshare --mount --propagation slave \
    sh -c 'cd "$0" && pivot_root . . && umount -l . && exec "$@"' "$root" "$@"
}

main
