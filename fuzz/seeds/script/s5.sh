qdisc add dev e root handle 1: tbf rate 1mbit burst 5kb latency 50ms
qdisc add dev e parent 1:1 handle 10: fq_codel quantum 300
qdisc change dev e parent 1:1 handle 10: fq_codel limit 3
