# Translates source addresses in network $2, behind device $1, to addresses of this namespace, until standard input ends.
# All links share a table with the present links, and with the devices for which a link has switched forwarding on.
# The last link to end reverts all changes, including those of links that were killed.
PATH=$PATH:/usr/sbin:/sbin
device=$1 network=$2 settings=/proc/sys/net/ipv4/conf

main() {
  exec 9</proc/self/ns/net
  flock 9
  end_if_last
  local closed
  closed=$(nft list ruleset ip 2>&1 | grep -m1 'hook forward.*policy drop') &&
    fail "the firewall drops forwarded packets ($(echo $closed)); accept packets from and to $device"
  # Only devices that exist at the time at which forwarding is switched on can be uplinks.
  local off
  off=$(grep -lx 0 "$settings"/*/forwarding | sed 's,/forwarding$,,; s,.*/,,' | grep -vx -e all -e default -e lo)
  begin $off 2>&1 | grep -m1 . && fail
  for name in $off; do echo 1 >"$settings/$name/forwarding" || fail; done
  flock -u 9
  echo ready
  while read -r _; do :; done
  flock 9
  nft "delete element ip catnip_emu links { $device }; delete element ip catnip_emu networks { $network }"
  end_if_last
}

begin() {
  nft -f - <<RULES
    table ip catnip_emu {
      set links { type ifname; }
      set forwarding { type ifname; }
      set networks { type ipv4_addr; flags interval; }
      chain out { type nat hook postrouting priority srcnat; }
    }
    flush chain ip catnip_emu out
    add rule ip catnip_emu out ip saddr @networks oifname != @links masquerade
    add element ip catnip_emu links { $device }
    add element ip catnip_emu networks { $network }
    $(for name; do echo "add element ip catnip_emu forwarding { $name }"; done)
RULES
}

end_if_last() {
  local name
  for name in $(elements links); do [ ! -e "$settings/$name" ] || return 0; done
  for name in $(elements forwarding); do echo 0 >"$settings/$name/forwarding"; done
  nft delete table ip catnip_emu
} 2>/dev/null

elements() { nft list set ip catnip_emu "$1" | grep -o '"[^"]*"' | tr -d '"'; }

fail() { echo "$@"; exit 1; }

main
