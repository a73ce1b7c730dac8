#!/bin/sh
# The upload is shaped where it leaves, the download in an ifb behind the ingress hook.
DEV=eth0
tc qdisc del dev $DEV root 2>/dev/null
tc qdisc del dev $DEV ingress 2>/dev/null || true
ip link add ifb0 type ifb
ip link set ifb0 up
tc qdisc add dev $DEV root cake bandwidth 19mbit
tc qdisc add dev $DEV handle ffff: ingress
tc filter add dev $DEV parent ffff: protocol all matchall action mirred egress redirect dev ifb0
tc qdisc add dev ifb0 root cake bandwidth 95mbit besteffort
