/* The packets of rte_sched.c and c_library.c: mbufs of 64 bytes, which come back with another pipe
 * and queue, drawn at random. Each program prints nanoseconds for a packet: it leaves, gets its next place, and
 * is queued there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>

#include "cpu.h"

enum { BURST = 32, QUEUES = 16, STRICT = 12, LENGTH = 64, WARM = 1 << 20, TIMED = 1 << 22 };

struct place {
    uint32_t pipe, queue;
};

static struct place place(uint32_t pipes)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (struct place){(uint32_t)((state >> 32) * pipes >> 32), state & (QUEUES - 1)};
}

static struct rte_mempool *mbufs(uint32_t standing)
{
    struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", standing + 4096, 256, 0, 128, 0);
    if (pool == NULL)
        rte_exit(1, "no memory for %u mbufs\n", standing);
    return pool;
}

static struct rte_mbuf *packet(struct rte_mempool *pool)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
    if (m == NULL)
        rte_exit(1, "no mbuf\n");
    m->data_off = 0;
    m->pkt_len = m->data_len = LENGTH;
    return m;
}
