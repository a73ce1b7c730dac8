qdisc add root handle 1: htb default 10 r2q 10
class add parent 1: classid 1:1 htb rate 10mbit ceil 10mbit
class add parent 1:1 classid 1:10 htb rate 9mbit ceil 10mbit burst 15k
qdisc add parent 1:10 handle 10: fq_codel
