/* txweir's C library in the loop of rte_sched.c, with the same mbufs.
 * usage: c_library EAL... -- PIPES STANDING [ets]
 * A pipe is a class of htb; with ets it has 12 strict queues and 4 that share, else one queue. */
#include "pipes.h"

#include <rte_prefetch.h>
#include <txweir.h>

static struct txweir *scheduler(uint32_t pipes, uint32_t standing, int ets)
{
    struct txweir_config config = txweir_config_default();
    config.role = TXWEIR_FORWARDER;
    config.byte_limit = false;
    config.packets = standing + 1024;
    config.memory = 1ull << 32;
    struct txweir *queue = txweir_new(&config);
    char *text = malloc(pipes * 300 + 100), error[500];
    size_t n = sprintf(text, "qdisc replace root handle 1: htb\n");
    for (uint32_t i = 1; i <= pipes; i++) {
        n += sprintf(text + n, "class add parent 1: classid 1:%x htb rate 100gbit burst 1mb cburst 1mb", i);
        n += sprintf(text + n, " quantum 1514\n");
        if (ets)
            n += sprintf(text + n, "qdisc add parent 1:%x ets bands 16 strict 12 priomap %s\n", i,
                         "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
    }
    if (queue == NULL || txweir_apply(queue, 0, text, n, error, sizeof error) != TXWEIR_OK)
        rte_exit(1, "no scheduler: %s\n", queue ? error : "");
    free(text);
    return queue;
}

static void write_place(struct txweir_packet *p, struct rte_mbuf *m, uint32_t pipes)
{
    struct place at = place(pipes);
    memset(p, 0, sizeof *p);
    p->frame = m;
    p->length = m->pkt_len;
    p->class_id = 0x10001 + at.pipe;
    p->priority = at.queue;
}

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0 || argc < given + 3)
        return 2;
    uint32_t pipes = atoi(argv[given + 1]), standing = atoi(argv[given + 2]);
    struct txweir *queue = scheduler(pipes, standing, argc > given + 3);
    struct rte_mempool *pool = mbufs(standing);
    struct txweir_packet burst[BURST];
    double ns = 1e9 / rte_get_tsc_hz();
    for (uint32_t i = 0; i < standing; i++) {
        write_place(burst, packet(pool), pipes);
        txweir_submit(queue, rte_rdtsc() * ns, burst, 1, NULL);
    }
    uint64_t passed = 0, before = 0;
    double start = 0;
    while (passed < WARM + TIMED) {
        if (before == 0 && passed >= WARM) {
            before = passed;
            start = cpu_ns();
        }
        uint64_t now = rte_rdtsc() * ns;
        size_t n = txweir_pull(queue, now, burst, BURST, NULL);
        /* rte_sched asks for the memory of each mbuf that it hands out. */
        for (size_t i = 0; i < n; i++)
            rte_prefetch0(burst[i].frame);
        for (size_t i = 0; i < n; i++)
            write_place(&burst[i], burst[i].frame, pipes);
        txweir_submit(queue, now, burst, n, NULL);
        passed += n;
    }
    double end = cpu_ns();
    struct txweir_stats stats;
    txweir_get_stats(queue, &stats);
    printf("ns %.3f\ndropped %lu\n", (end - start) / (passed - before), stats.dropped);
    return 0;
}
