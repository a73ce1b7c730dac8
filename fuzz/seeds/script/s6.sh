readonly A='x y' B="$A"; export C=$(ls)
tc qdisc add dev "${B% *}" root \
   pfifo limit ${#B}
while read l; do tc $l; done < f
