#!/bin/sh
set -e
DEV=${1:-eth0}
RATE=20mbit
tc qdisc del dev $DEV root 2>/dev/null || true
tc qdisc add dev $DEV root handle 1: tbf rate $RATE burst 1k latency 20ms
for q in 1 2; do
  tc qdisc add dev $DEV parent 1:1 fq_codel
done
