#!/bin/bash
# expect: lines=14 warnings=quantum
# The constructs of Kubernetes' shaper: it finds the next free class in the text of show, adds a class
# and a filter for each pod, and removes them by the handle that it finds.
set -eu
IF=cbr0
ip link add name $IF type bridge 2>/dev/null || true
ip link set dev $IF up mtu 1460

has_root() { tc qdisc show dev $IF | grep -q '^qdisc htb 1: root'; }
next_class() {
    local n=1
    local used
    used=$(tc class show dev $IF | awk '{split($3, id, ":"); print id[2]}')
    while grep -qx "$n" <<<"$used"; do n=$((n + 1)); done
    echo $n
}
has_root || tc qdisc add dev $IF root handle 1: htb default 30
tc class add dev $IF parent 1: classid 1:30 htb rate 1gbit
add() {
    local n
    n=$(next_class)
    tc class add dev $IF parent 1: classid "1:$n" htb rate "$2"
    tc filter add dev $IF protocol ip parent 1:0 prio 1 u32 match ip dst "$1" flowid "1:$n"
    tc filter add dev $IF protocol ip parent 1:0 prio 1 u32 match ip src "$1" flowid "1:$n"
}
for pod in 10.88.0.2/32=10mbit 10.88.0.3/32=20mbit 10.88.0.4/32=5mbit; do
    add "${pod%=*}" "${pod#*=}"
done
# One pod ends: the filters that name its class go, then the class.
class=$(tc filter show dev $IF | awk '/flowid 1:2/ {print $NF; exit}')
handles=$(tc filter show dev $IF | awk '/flowid 1:2/ {for (i = 1; i < NF; i++) if ($i == "fh") print $(i + 1)}')
for handle in $handles; do
    tc filter del dev $IF parent 1: protocol ip prio 1 handle "$handle" u32
done
tc class del dev $IF parent 1: classid 1:2
