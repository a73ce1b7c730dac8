#!/bin/sh
DEV=${1:-eth0}
RATE=$((10*2))mbit
tc qdisc del dev $DEV root 2>/dev/null || true
tc qdisc add dev $DEV root handle 1: htb default 20
for i in 10 20 30; do tc class add dev $DEV parent 1: classid 1:$i htb rate ${RATE} ; done
if [ "$X" = y ]; then tc qdisc add dev $DEV parent 1:10 fq_codel; fi
