/* A poll loop of DPDK with a transmit queue of txweir: bursts of 32 from an input port, a policy of
 * tc, bursts of 32 to an output port. Both ports are rings in memory, whose far ends are in wire.h.
 * The program prints its counts as JSON, and fails if a packet or an mbuf is missing at the end.
 *
 *   cc dpdk.c $(pkg-config --cflags --libs libdpdk txweir) -lrte_net_ring -o dpdk
 *   ./dpdk --no-huge --no-pci -m 128 -l 0 -- [virtual]
 *
 * With `virtual` a turn of the loop takes 128 us by the queue's clock, and all counts are the same
 * each time. Without it the clock is the processor's. */
#include <inttypes.h>
#include <stdio.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <txweir.h>

#include "wire.h"

enum { BURST = 32, TURN_NS = 128000 };

/* Signalling has a guarantee of 300 Mbit/s, the rest one of 700. A bucket holds more than a turn of
 * the loop at the full rate. */
static const char POLICY[] =
    "qdisc replace root handle 1: htb default 20\n"
    "class add parent 1: classid 1:1 htb rate 1gbit burst 64kb cburst 64kb\n"
    "class add parent 1:1 classid 1:10 htb rate 300mbit ceil 1gbit burst 32kb cburst 64kb\n"
    "class add parent 1:1 classid 1:20 htb rate 700mbit ceil 1gbit burst 64kb cburst 64kb\n"
    "qdisc add parent 1:10 handle 10: pfifo limit 64\n"
    "qdisc add parent 1:20 handle 20: fq_codel limit 1000\n";

static void discard(void *dropped, void *frame, uint8_t reason)
{
    (void)reason;
    ++*(uint64_t *)dropped;
    rte_pktmbuf_free(frame);
}

static uint16_t port(const char *name, struct rte_ring *ring, struct rte_mempool *pool)
{
    const struct rte_eth_conf plain = {0};
    int id = rte_eth_from_rings(name, &ring, 1, &ring, 1, 0);
    if (id < 0 || rte_eth_dev_configure(id, 1, 1, &plain) != 0 ||
        rte_eth_rx_queue_setup(id, 0, 256, 0, NULL, pool) != 0 ||
        rte_eth_tx_queue_setup(id, 0, 256, 0, NULL) != 0 || rte_eth_dev_start(id) != 0)
        rte_exit(1, "no port %s\n", name);
    return id;
}

static struct txweir *queue_with_policy(uint64_t *dropped)
{
    struct txweir_config config = txweir_config_default();
    config.role = TXWEIR_FORWARDER;
    config.byte_limit = false; /* rte_eth_tx_burst does not tell when a packet has left */
    config.packets = 4096;
    struct txweir *queue = txweir_new(&config);
    char error[500];
    txweir_set_discard(queue, discard, dropped);
    if (txweir_apply(queue, 0, POLICY, strlen(POLICY), error, sizeof error) != TXWEIR_OK)
        rte_exit(1, "%s\n", error);
    return queue;
}

/* Sets CE in the IP header, as an AQM asks for. */
static void mark(struct rte_mbuf *m)
{
    struct rte_ipv4_hdr *ip = &rte_pktmbuf_mtod(m, struct headers *)->ip;
    ip->type_of_service |= CE;
    ip->hdr_checksum = 0;
    ip->hdr_checksum = rte_ipv4_cksum(ip);
}

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0)
        rte_exit(1, "no EAL\n");
    bool virtual = argc > given + 1 && strcmp(argv[given + 1], "virtual") == 0;
    struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", 8191, 0, 0, 2048, 0);
    struct rte_ring *far[2] = {rte_ring_create("in", 256, 0, 0), rte_ring_create("out", 256, 0, 0)};
    uint16_t in = port("net_in", far[0], pool), out = port("net_out", far[1], pool);
    uint64_t dropped = 0, received = 0, sent = 0, shares[2] = {0, 0}, now = 0;
    struct txweir *queue = queue_with_policy(&dropped);
    struct wire wire = {0};

    struct rte_mbuf *mbufs[BURST], *ready[BURST];
    struct txweir_next next = {.kind = TXWEIR_IDLE};
    uint16_t n, held = 0; /* ready[0..held] were pulled, and the port has not taken them yet */
    do {
        wire_send(&wire, pool, far[0], BURST);
        now = virtual ? now + TURN_NS : (uint64_t)(rte_get_tsc_cycles() * (1e9 / rte_get_tsc_hz()));

        struct txweir_packet packets[BURST] = {0};
        n = rte_eth_rx_burst(in, 0, mbufs, BURST);
        for (int i = 0; i < n; i++) {
            struct rte_mbuf *m = packets[i].frame = mbufs[i];
            txweir_read(queue, rte_pktmbuf_mtod(m, void *), m->data_len, m->pkt_len, &packets[i]);
            packets[i].class_id = packets[i].tos == SIGNALLING ? 0x10010 : 0x10020;
        }
        received += n;
        txweir_submit(queue, now, packets, n, NULL);

        n = txweir_pull(queue, now, packets, BURST - held, &next);
        for (int i = 0; i < n; i++) {
            ready[held++] = packets[i].frame;
            if (packets[i].flags & TXWEIR_MARK)
                mark(packets[i].frame);
        }
        n = rte_eth_tx_burst(out, 0, ready, held);
        held -= n;
        memmove(ready, ready + n, held * sizeof *ready);
        sent += n;

        wire_receive(&wire, far[1]);
        if (wire.made < PACKETS) { /* both classes have packets */
            shares[0] = wire.signalling;
            shares[1] = wire.got - wire.signalling;
        }
    } while (received < PACKETS || held > 0 || next.kind != TXWEIR_IDLE);

    char qdiscs[4000];
    txweir_show(queue, true, qdiscs, sizeof qdiscs);
    txweir_free(queue);
    unsigned in_use = rte_mempool_in_use_count(pool);
    printf("{\"received\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"dropped\": %" PRIu64, received,
           sent, dropped);
    printf(", \"marked\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"shares\": [%" PRIu64 ", %" PRIu64
           "], \"in_use\": %u, \"qdiscs\": %s}\n", wire.marked, wire.wrong, shares[0], shares[1],
           in_use, qdiscs);
    rte_eal_cleanup();
    return in_use != 0 || received != sent + dropped || wire.got != sent || wire.wrong != 0;
}
