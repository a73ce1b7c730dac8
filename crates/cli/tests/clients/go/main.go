// A client of rtnetlink as plugins of CNI are: the bandwidth plugin's calls, by vishvananda/netlink.
package main

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
)

func check(what string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func main() {
	link, err := netlink.LinkByName(os.Args[1])
	check("link", err)
	byIndex, err := netlink.LinkByIndex(link.Attrs().Index)
	check("link by number", err)
	all, err := netlink.LinkList()
	check("links", err)
	fmt.Println("link", byIndex.Attrs().Name, byIndex.Attrs().MTU, byIndex.Type(), len(all))
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	check("addresses", err)
	fmt.Println("addresses", len(addresses))
	index := link.Attrs().Index
	tbf := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       1250000, Limit: 125000, Buffer: 781250,
	}
	check("tbf", netlink.QdiscAdd(tbf))
	show(link)
	check("del", netlink.QdiscDel(tbf))
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
	htb.Defcls = 0x30
	check("htb", netlink.QdiscReplace(htb))
	class := netlink.NewHtbClass(
		netlink.ClassAttrs{LinkIndex: index, Parent: netlink.MakeHandle(1, 0), Handle: netlink.MakeHandle(1, 0x30)},
		netlink.HtbClassAttrs{Rate: 8000000, Ceil: 16000000, Buffer: 10000, Cbuffer: 10000, Prio: 1})
	check("class", netlink.ClassAdd(class))
	check("fq_codel", netlink.QdiscAdd(&netlink.FqCodel{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index,
		Handle: netlink.MakeHandle(0x30, 0), Parent: netlink.MakeHandle(1, 0x30)}, Limit: 600, Target: 5000, Interval: 100000}))
	netem := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0x40, 0), Parent: netlink.MakeHandle(1, 0x30)},
		netlink.NetemQdiscAttrs{Latency: 20000, Loss: 1})
	check("netem", netlink.QdiscReplace(netem))
	show(link)
	classes, err := netlink.ClassList(link, 0)
	check("classes", err)
	for _, class := range classes {
		fmt.Println("class", class.Type(), netlink.HandleStr(class.Attrs().Handle), class.(*netlink.HtbClass).Rate, class.Attrs().Statistics != nil)
	}
	err = netlink.QdiscAdd(htb)
	fmt.Println("again:", err)
	err = netlink.QdiscDel(tbf)
	fmt.Println("gone:", err)
	_, err = netlink.LinkByName("nolink")
	fmt.Println("missing:", err)
}

func show(link netlink.Link) {
	all, err := netlink.QdiscList(link)
	check("qdiscs", err)
	for _, one := range all {
		fmt.Println("qdisc", one.Type(), netlink.HandleStr(one.Attrs().Handle), netlink.HandleStr(one.Attrs().Parent))
	}
}
