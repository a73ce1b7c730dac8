#!/bin/bash
# expect: lines=12 refused=3 warnings=above-link,long-wait,unreachable-class
# options: --link eth0=9mbit
# The constructs of wondershaper: getopts, arithmetic, a status that reads statistics, and the two
# forms of an error.
set -u
MODE="" DSPEED="" USPEED="" IFACE=""
usage() { echo "usage: $0 -a <adapter> -d <kbit> -u <kbit>"; exit 1; }
while getopts a:d:u:cs opt "${@:--aeth0}"; do
    case $opt in
        a) IFACE=$OPTARG ;;
        d) DSPEED=$OPTARG ;;
        u) USPEED=$OPTARG ;;
        c) MODE=clear ;;
        s) MODE=status ;;
        *) usage ;;
    esac
done
: "${DSPEED:=40000}" "${USPEED:=10000}"
IFB=ifb0

if [ "$MODE" = status ]; then
    tc -s qdisc ls dev "$IFACE"
    exit
fi

ip link show dev "$IFACE" >/dev/null 2>&1 || { echo "no $IFACE"; exit 1; }
tc qdisc del dev "$IFACE" root 2>/dev/null >/dev/null
tc qdisc del dev "$IFACE" ingress 2>/dev/null >/dev/null
tc qdisc del dev $IFB root 2>/dev/null >/dev/null
if [ "$MODE" = clear ]; then exit; fi

tc qdisc add dev "$IFACE" root handle 1: htb default 20
tc class add dev "$IFACE" parent 1: classid 1:1 htb rate "${USPEED}kbit" prio 5
RATE=$((20 * USPEED / 100))
[ "$RATE" -eq 0 ] && RATE=1
tc class add dev "$IFACE" parent 1:1 classid 1:10 htb rate $((40 * USPEED / 100))kbit ceil $((95 * USPEED / 100))kbit prio 1
tc class add dev "$IFACE" parent 1:1 classid 1:20 htb rate $((40 * USPEED / 100))kbit ceil $((95 * USPEED / 100))kbit prio 2
tc class add dev "$IFACE" parent 1:1 classid 1:30 htb rate ${RATE}kbit ceil $((90 * USPEED / 100))kbit prio 3
tc filter add dev "$IFACE" parent 1: protocol ip prio 10 u32 match ip protocol 1 0xff flowid 1:10

# The ingress side, as far as the kernel has an ifb.
if modprobe ifb numifbs=1 && ip link set dev $IFB up; then
    tc qdisc add dev "$IFACE" handle ffff: ingress
    tc filter add dev "$IFACE" parent ffff: protocol ip prio 1 u32 match u32 0 0 action mirred egress redirect dev $IFB
    tc qdisc add dev $IFB root cake bandwidth "${DSPEED}kbit" besteffort
else
    echo "no ifb"
    exit 1
fi
[ "$(tc -s qdisc ls dev $IFB | awk '/^qdisc cake/ {print $2}')" = cake ] || exit 1
