/* rte_ring on one core: a burst in and out, while 256 stand. usage: rte_ring EAL... -- sp|mp BURST */
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_ring.h>

#include "cpu.h"

enum { ITEMS = 1 << 25 };

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0 || argc < given + 3)
        return 2;
    unsigned producers = argv[given + 1][0] == 's' ? RING_F_SP_ENQ : 0, burst = atoi(argv[given + 2]);
    struct rte_ring *ring = rte_ring_create("ring", 1024, 0, producers | RING_F_SC_DEQ);
    void *items[64] = {0};
    for (int i = 0; i < 256; i++)
        rte_ring_enqueue(ring, items[0]);
    double start = cpu_ns();
    for (int i = 0; i < ITEMS; i += burst) {
        rte_ring_enqueue_burst(ring, items, burst, NULL);
        rte_ring_dequeue_burst(ring, items, burst, NULL);
    }
    printf("ns %.3f\n", (cpu_ns() - start) / ITEMS);
    return 0;
}
