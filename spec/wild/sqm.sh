#!/bin/sh
# expect: lines=21 refused=3
# options: --link eth0=20mbit --link ifb4eth0=90mbit
# The constructs of sqm-scripts: wrappers that log, an ifb per interface, cells of classes, marks by
# iptables, and tests for what the kernel has.
IFACE=${1:-eth0}
UPLINK=18000
DOWNLINK=85000
QDISC=fq_codel
DEV="ifb4${IFACE}"
TC=$(command -v tc)
IP=$(command -v ip)

log() { logger -t sqm "$@" 2>/dev/null; }

call() {
    "$@" >/tmp/sqm.log 2>&1
    rc=$?
    [ $rc -eq 0 ] || log "$* failed with $rc: $(cat /tmp/sqm.log)"
    return $rc
}
tc_wrapper() { call "$TC" "$@"; }

get_burst() { echo $(($1 * 1000 / 8 / 1000)); }

verify_qdisc() {
    # A test device tells whether the kernel has the qdisc.
    ifb="SQM_IFB_$$"
    $IP link add name "$ifb" type ifb || return 1
    $IP link set dev "$ifb" up
    $TC qdisc replace dev "$ifb" root "$1" 2>/dev/null
    res=$?
    $IP link set dev "$ifb" down
    $IP link delete "$ifb" type ifb
    return $res
}

stop() {
    $TC qdisc del dev "$IFACE" ingress 2>/dev/null
    $TC qdisc del dev "$IFACE" root 2>/dev/null
    [ -d "/sys/class/net/$DEV" ] && $TC qdisc del dev "$DEV" root 2>/dev/null
    iptables -t mangle -D POSTROUTING -o "$IFACE" -j "QOS_MARK_$IFACE" 2>/dev/null
    iptables -t mangle -F "QOS_MARK_$IFACE" 2>/dev/null
    iptables -t mangle -X "QOS_MARK_$IFACE" 2>/dev/null
    [ -n "$($IP link show "$DEV" 2>/dev/null)" ] && $IP link delete "$DEV" type ifb
}

egress() {
    tc_wrapper qdisc add dev "$IFACE" root handle 1: htb default 12 || exit 1
    tc_wrapper class add dev "$IFACE" parent 1: classid 1:1 htb rate ${UPLINK}kbit ceil ${UPLINK}kbit \
        burst "$(get_burst $UPLINK)b" cburst "$(get_burst $UPLINK)b"
    PRIO=$((UPLINK / 3))
    for class in 11:$PRIO:1 12:$((UPLINK / 6)):2 13:$((UPLINK / 6)):3; do
        id=${class%%:*}
        rest=${class#*:}
        tc_wrapper class add dev "$IFACE" parent 1:1 classid "1:$id" htb rate "${rest%%:*}kbit" \
            ceil ${UPLINK}kbit prio "${rest##*:}"
        tc_wrapper qdisc add dev "$IFACE" parent "1:$id" handle "${id}0:" $QDISC limit 1001 noecn
        tc_wrapper filter add dev "$IFACE" parent 1:0 protocol all prio "$id" handle "$((id - 10))" fw classid "1:$id"
    done
    iptables -t mangle -N "QOS_MARK_$IFACE"
    iptables -t mangle -A "QOS_MARK_$IFACE" -j MARK --set-mark 0x2/0xff
    iptables -t mangle -A "QOS_MARK_$IFACE" -m dscp --dscp-class CS1 -j MARK --set-mark 0x3/0xff
    iptables -t mangle -A "QOS_MARK_$IFACE" -m dscp --dscp-class EF -j MARK --set-mark 0x1/0xff
    iptables -t mangle -A POSTROUTING -o "$IFACE" -j "QOS_MARK_$IFACE"
}

ingress() {
    tc_wrapper qdisc add dev "$IFACE" handle ffff: ingress
    tc_wrapper qdisc add dev "$DEV" root handle 1: htb default 10
    tc_wrapper class add dev "$DEV" parent 1: classid 1:1 htb rate ${DOWNLINK}kbit ceil ${DOWNLINK}kbit
    tc_wrapper class add dev "$DEV" parent 1:1 classid 1:10 htb rate ${DOWNLINK}kbit ceil ${DOWNLINK}kbit prio 0
    tc_wrapper qdisc add dev "$DEV" parent 1:10 handle 110: $QDISC limit 1001
    $IP link set dev "$DEV" up
    tc_wrapper filter add dev "$IFACE" parent ffff: protocol all prio 10 u32 match u32 0 0 flowid 1:1 \
        action mirred egress redirect dev "$DEV"
}

modprobe ifb 2>/dev/null
verify_qdisc $QDISC || { echo "no $QDISC"; exit 1; }
verify_qdisc nfq_codel && { echo "this kernel is not upstream's"; exit 1; }
[ -d "/sys/class/net/$IFACE" ] || { echo "no $IFACE"; exit 1; }
stop
$IP link add name "$DEV" type ifb || exit 1
egress
ingress
$TC qdisc show dev "$DEV" | grep -q "qdisc $QDISC 110:" || { echo "not started"; exit 1; }
