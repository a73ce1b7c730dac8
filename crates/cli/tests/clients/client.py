"""A client of rtnetlink by pyroute2: makes a policy on the link that is named, and shows it."""

import sys

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

with IPRoute() as ip:
    index = ip.link_lookup(ifname=sys.argv[1])[0]
    link = list(ip.get_links(index))[0]
    print("link", link.get_attr("IFLA_IFNAME"), link.get_attr("IFLA_MTU"), len(list(ip.get_links())))
    print("addresses", len(list(ip.get_addr(index=index))))
    ip.tc("add", "htb", index, 0x10000, default=0x200000)
    ip.tc("add-class", "htb", index, 0x10001, parent=0x10000, rate="256kbit", burst=1024 * 6)
    ip.tc("add-class", "htb", index, 0x10010, parent=0x10001, rate="192kbit", burst=1024 * 6, prio=1)
    ip.tc("add", "sfq", index, 0x100000, parent=0x10010, perturb=10)
    for qdisc in ip.get_qdiscs(index):
        counts = qdisc.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["qlen"]
        print("qdisc", qdisc.get_attr("TCA_KIND"), hex(qdisc["handle"]), hex(qdisc["parent"]), counts)
    for class_ in ip.get_classes(index):
        print("class", class_.get_attr("TCA_KIND"), hex(class_["handle"]), hex(class_["parent"]))
    try:
        ip.tc("add", "htb", index, 0x10000, default=0x200000)
    except NetlinkError as e:
        print("again", e.code)
    print("filters", len(list(ip.get_filters(index=index))))
    ip.tc("del", index=index, handle=0x10000, parent=0xFFFFFFFF)
    print("left", [qdisc.get_attr("TCA_KIND") for qdisc in ip.get_qdiscs(index)])
