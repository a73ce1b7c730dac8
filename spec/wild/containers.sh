#!/bin/sh
# expect: lines=14 refused=1
# The constructs of docker-tc, pumba and chaos-mesh: a namespace for each container, `ip netns exec`
# and `tc -n`, absolute paths, a tbf below a netem, and the one class of each without its number.
set -e
for name in web db; do
    ip netns list | grep -q "^$name" || ip netns add $name
    ip link add "v-$name" type veth peer name eth0 netns $name
    ip link set "v-$name" up
    ip netns exec $name ip link set dev eth0 up
done
# docker-tc
OPTIONS="delay 100ms"
tc qdisc add dev v-web root handle 1: netem $OPTIONS
tc qdisc add dev v-web parent 1: handle 2: tbf burst 5kb latency 50ms rate 1mbit
# pumba
ip netns exec web /sbin/tc qdisc add dev eth0 root handle 1: prio
ip netns exec web /sbin/tc qdisc add dev eth0 parent 1:1 handle 10: sfq
ip netns exec web /sbin/tc qdisc add dev eth0 parent 1:2 handle 20: sfq
ip netns exec web /sbin/tc qdisc add dev eth0 parent 1:3 handle 30: netem delay 3000ms 20ms distribution normal
ip netns exec web /sbin/tc filter add dev eth0 protocol ip parent 1:0 prio 1 u32 match ip dst 10.1.0.0/16 flowid 1:3
# chaos-mesh: a failed removal of nothing is known by its text.
if ! said=$(tc -n db qdisc del dev eth0 root 2>&1); then
    case $said in
        *"Cannot delete qdisc with handle of zero."*|*"No such file or directory"*) ;;
        *) echo "$said"; exit 1 ;;
    esac
fi
tc -n db qdisc add dev eth0 root handle 1: netem delay 50ms
tc -n db qdisc add dev eth0 parent 1: handle 2: netem loss 5%
tc -n db qdisc add dev eth0 parent 2: handle 3: tbf rate 10mbit burst 100kb latency 40ms
tc -n db qdisc add dev eth0 parent 3: handle 4: prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
tc -n db qdisc add dev eth0 parent 4:4 handle 8: netem delay 10ms
tc -n db filter add dev eth0 parent 4: protocol ip prio 1 u32 match ip dport 5432 0xffff flowid 4:4
