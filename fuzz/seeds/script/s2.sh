tc qdisc add dev eth0 root handle 1: prio
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.0/8 flowid 1:1
tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dst 10.1.0.0/16 flowid 1:2
tc qdisc add dev eth0 parent 1:3 netem delay 10ms
