/* rte_sched: pipes of 12 strict queues and 4 that share, while a number of packets stands.
 * usage: rte_sched EAL... -- PIPES STANDING */
#include "pipes.h"

#include <rte_sched.h>

/* No rate is ever the limit. */
static const uint64_t RATE = 100000000000 / 8;

static struct rte_sched_port *scheduler(uint32_t pipes)
{
    struct rte_sched_subport_profile_params profile = {.tb_rate = RATE, .tb_size = 100000000, .tc_period = 10};
    struct rte_sched_pipe_params pipe = {.tb_rate = RATE, .tb_size = 1000000, .tc_period = 10, .tc_ov_weight = 1};
    struct rte_sched_subport_params subport = {.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe,
                                               .n_pipe_profiles = 1, .n_max_pipe_profiles = 1};
    struct rte_sched_port_params params = {.name = "port", .rate = RATE, .mtu = 1522,
                                           .frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
                                           .n_subports_per_port = 1, .subport_profiles = &profile,
                                           .n_subport_profiles = 1, .n_max_subport_profiles = 1,
                                           .n_pipes_per_subport = pipes};
    for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) {
        profile.tc_rate[i] = pipe.tc_rate[i] = RATE;
        subport.qsize[i] = 64;
    }
    for (int i = 0; i < RTE_SCHED_BE_QUEUES_PER_PIPE; i++)
        pipe.wrr_weights[i] = 1;
    struct rte_sched_port *port = rte_sched_port_config(&params);
    if (port == NULL || rte_sched_subport_config(port, 0, &subport, 0) != 0)
        rte_exit(1, "no scheduler\n");
    for (uint32_t i = 0; i < pipes; i++)
        if (rte_sched_pipe_config(port, 0, i, 0) != 0)
            rte_exit(1, "no pipe %u\n", i);
    return port;
}

static void write_place(struct rte_sched_port *port, struct rte_mbuf *m, uint32_t pipes)
{
    struct place p = place(pipes);
    uint32_t class = p.queue < STRICT ? p.queue : STRICT;
    rte_sched_port_pkt_write(port, m, 0, p.pipe, class, p.queue - class, RTE_COLOR_GREEN);
}

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0 || argc < given + 3)
        return 2;
    uint32_t pipes = atoi(argv[given + 1]), standing = atoi(argv[given + 2]), held = 0;
    struct rte_sched_port *port = scheduler(pipes);
    struct rte_mempool *pool = mbufs(standing);
    struct rte_mbuf *burst[BURST];
    uint64_t passed = 0, dropped = 0, before = 0;
    double start = 0;
    while (passed < WARM + TIMED) {
        /* A packet that was dropped gets a successor. */
        while (held < standing) {
            struct rte_mbuf *m = packet(pool);
            write_place(port, m, pipes);
            held += rte_sched_port_enqueue(port, &m, 1);
        }
        if (before == 0 && passed >= WARM) {
            before = passed;
            start = cpu_ns();
        }
        int n = rte_sched_port_dequeue(port, burst, BURST);
        for (int i = 0; i < n; i++)
            write_place(port, burst[i], pipes);
        int lost = n - rte_sched_port_enqueue(port, burst, n);
        held -= lost;
        dropped += lost;
        passed += n;
    }
    printf("ns %.3f\ndropped %lu\n", (cpu_ns() - start) / (passed - before), dropped);
    return 0;
}
