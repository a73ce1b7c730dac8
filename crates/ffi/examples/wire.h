/* The two ends of the wire for dpdk.c: a sender that fills the ring of the input port with packets
 * of two kinds, and a receiver that empties the ring of the output port and checks their order. */
#include <stdint.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

enum { PACKETS = 256000, FLOWS = 16, LENGTH = 1000, SIGNALLING = 0xb8, ECT0 = 2, CE = 3 };

struct headers {
    struct rte_ether_hdr ether;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    uint32_t number;
} __rte_packed __rte_aligned(2);

/* The packets sent, and those that came. */
struct wire {
    uint32_t made, next[FLOWS];
    uint64_t got, signalling, marked, wrong;
};

/* Sends up to `most` packets of all flows in turn; every second one is signalling. */
static void wire_send(struct wire *wire, struct rte_mempool *pool, struct rte_ring *in, int most)
{
    for (int i = 0; i < most && wire->made < PACKETS; i++) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
        struct headers *h = m == NULL ? NULL : (struct headers *)rte_pktmbuf_append(m, LENGTH);
        if (h == NULL)
            rte_exit(1, "no mbuf for a packet\n");
        memset(h, 0, sizeof *h);
        h->ether.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
        h->ip.version_ihl = 0x45;
        h->ip.type_of_service = wire->made % 2 ? SIGNALLING : ECT0;
        h->ip.total_length = rte_cpu_to_be_16(LENGTH - sizeof h->ether);
        h->ip.next_proto_id = IPPROTO_UDP;
        h->ip.hdr_checksum = rte_ipv4_cksum(&h->ip);
        h->udp.src_port = wire->made % FLOWS;
        h->number = wire->made;
        if (rte_ring_enqueue(in, m) != 0) {
            rte_pktmbuf_free(m);
            return;
        }
        wire->made++;
    }
}

/* Takes every packet; one behind its successor, or with a wrong checksum, is wrong. */
static void wire_receive(struct wire *wire, struct rte_ring *out)
{
    struct rte_mbuf *m;
    while (rte_ring_dequeue(out, (void **)&m) == 0) {
        struct headers *h = rte_pktmbuf_mtod(m, struct headers *);
        uint16_t sum = h->ip.hdr_checksum;
        h->ip.hdr_checksum = 0;
        wire->wrong += h->number < wire->next[h->udp.src_port] || rte_ipv4_cksum(&h->ip) != sum;
        wire->next[h->udp.src_port] = h->number + 1;
        wire->got++;
        wire->signalling += h->ip.type_of_service == SIGNALLING;
        wire->marked += (h->ip.type_of_service & CE) == CE;
        rte_pktmbuf_free(m);
    }
}
