#!/bin/sh
# expect: lines=13 refused=2 errors=dangling-flowid warnings=long-wait,oversubscribed
# options: --link ppp0=240kbit
# The constructs of the LARTC scripts: variables at the top, `||` chains, lists of ports in a loop,
# and a branch on the first argument. It has two mistakes: the children of 1:1 are promised more than
# it has, and a filter leads to a class that was renamed.
DOWNLINK=800
UPLINK=220
DEV=ppp0
NOPRIOHOSTSRC="10.0.0.5 10.0.0.6"
NOPRIOPORTDST=6881

if [ "$1" = "status" ]; then
    tc -s qdisc ls dev $DEV
    tc -s class ls dev $DEV
    exit
fi
tc qdisc del dev $DEV root 2> /dev/null > /dev/null
tc qdisc del dev $DEV ingress 2> /dev/null > /dev/null
if [ "$1" = "stop" ]; then exit; fi

tc qdisc add dev $DEV root handle 1: htb default 20
tc class add dev $DEV parent 1: classid 1:1 htb rate ${UPLINK}kbit burst 6k
tc class add dev $DEV parent 1:1 classid 1:10 htb rate ${UPLINK}kbit burst 6k prio 1
tc class add dev $DEV parent 1:1 classid 1:20 htb rate $((9 * UPLINK / 10))kbit burst 6k prio 2
tc qdisc add dev $DEV parent 1:20 handle 20: sfq perturb 10
tc filter add dev $DEV parent 1:0 protocol ip prio 10 u32 match ip tos 0x10 0xff flowid 1:10
for a in $NOPRIOHOSTSRC; do
    tc filter add dev $DEV parent 1: protocol ip prio 14 u32 match ip src $a flowid 1:20
done
for p in $NOPRIOPORTDST; do
    tc filter add dev $DEV parent 1: protocol ip prio 15 u32 match ip dport $p 0xffff flowid 1:30
done
tc qdisc add dev $DEV handle ffff: ingress
tc filter add dev $DEV parent ffff: protocol ip prio 50 u32 match ip src 0.0.0.0/0 \
    police rate ${DOWNLINK}kbit burst 10k drop flowid :1
