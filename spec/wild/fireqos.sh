#!/bin/bash
# expect: lines=14 refused=2 warnings=long-wait
# options: --link wan=10mbit
# The constructs of FireQOS: arrays, associative arrays, functions that return by printf -v, a batch
# that a function collects and a pipe applies, and a test of the result.
set -o nounset
declare -A CLASS_RATE=([voice]=2000 [web]=4900 [bulk]=2000)
ORDER=(voice web bulk)
declare -a BATCH=()

tc() {
    local noerror=0
    [ "$1" = ignore-error ] && { noerror=1; shift; }
    if [ $noerror -eq 1 ]; then command tc "$@" 2>/dev/null; return 0; fi
    BATCH+=("$*")
}
hex() { printf -v "$1" '%x' "$2"; }
apply() {
    printf '%s\n' "${BATCH[@]}" | command tc -b - || { echo "cannot apply"; exit 1; }
    BATCH=()
}
trap 'command tc qdisc del dev wan root 2>/dev/null' ERR

tc ignore-error qdisc del dev wan root
tc ignore-error qdisc del dev wan ingress
tc qdisc add dev wan root handle 1: stab linklayer adsl overhead 40 mtu 1500 htb default 5000
tc class add dev wan parent 1: classid 1:1 htb rate 9000kbit ceil 9000kbit
n=0
for name in "${ORDER[@]}"; do
    n=$((n + 1))
    hex id $((n + 9))
    tc class add dev wan parent 1:1 classid "1:$id" htb rate "${CLASS_RATE[$name]}kbit" ceil 9000kbit prio $n
    tc qdisc add dev wan parent "1:$id" handle "$id:" fq_codel
done
tc class add dev wan parent 1:1 classid 1:5000 htb rate 90kbit ceil 9000kbit prio 7
tc filter add dev wan parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff match ip dport 5060 0xffff flowid 1:a
tc filter add dev wan parent 1: protocol ip prio 2 u32 match ip dport 443 0xffff flowid 1:b
tc filter add dev wan parent 1: protocol ip prio 3 u32 match ip dport 20 0xffff flowid 1:c
apply
count=$(command tc class show dev wan | grep -c '^class htb')
[ "$count" -eq 5 ] || { echo "expected 5 classes, got $count"; exit 1; }
