qdisc add dev eth0 root handle 1: hfsc default 1
class add dev eth0 parent 1: classid 1:1 hfsc sc rate 1mbit
qdisc add dev eth0 ingress
filter add dev eth0 parent ffff: matchall action police rate 1mbit burst 1k drop
