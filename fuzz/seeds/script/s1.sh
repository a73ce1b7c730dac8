f() { tc qdisc add dev "$1" root cake bandwidth "$2"; }
f eth0 10mbit
f eth1 20mbit && ip netns exec ns tc -n ns qdisc show
tc -b - <<EOF
qdisc add dev eth2 root pfifo limit 3
# comment
EOF
case $a in x) tc qdisc add dev c root red;; esac
