/* rte_ring between threads: producers to one consumer, as `txweir bench --producers` has them.
   usage: rte_ring_threads EAL... -- sp|mp PRODUCERS ITEMS ROUNDS */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_pause.h>
#include <rte_ring.h>

enum { PLACES = 1024, TRIES = 64 };

static struct rte_ring *ring;
static pthread_barrier_t gate;
static long each, processors;

static double wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* The last processor is the consumer's. */
static void pin(long cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void wait_a_little(unsigned *tries)
{
    if (++*tries % TRIES == 0)
        sched_yield();
    else
        rte_pause();
}

static void *produce(void *number)
{
    pin((long)number % (processors > 1 ? processors - 1 : 1));
    pthread_barrier_wait(&gate);
    unsigned tries = 0;
    for (long i = 0; i < each; i++)
        while (rte_ring_enqueue(ring, (void *)i) != 0)
            wait_a_little(&tries);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0 || argc < given + 5)
        return 2;
    unsigned flags = argv[given + 1][0] == 's' ? RING_F_SP_ENQ : 0;
    long producers = atol(argv[given + 2]), rounds = atol(argv[given + 4]);
    if (producers < 1 || producers > 64 || rounds < 1 || rounds > 1000)
        return 2;
    each = atol(argv[given + 3]) / producers;
    /* The affinity of this thread is that of the EAL. */
    processors = sysconf(_SC_NPROCESSORS_ONLN);
    ring = rte_ring_create("ring", PLACES, 0, flags | RING_F_SC_DEQ);
    double *ns = calloc(rounds, sizeof *ns);
    /* One more round comes first and is not counted. */
    for (long round = -1; round < rounds; round++) {
        pthread_t threads[64];
        pthread_barrier_init(&gate, NULL, producers + 1);
        for (long i = 0; i < producers; i++)
            if (pthread_create(&threads[i], NULL, produce, (void *)i) != 0)
                return 2;
        pin(processors - 1);
        pthread_barrier_wait(&gate);
        double start = wall_ns();
        unsigned tries = 0;
        void *item;
        for (long got = 0; got < each * producers;) {
            if (rte_ring_dequeue(ring, &item) == 0)
                got++;
            else
                wait_a_little(&tries);
        }
        if (round >= 0)
            ns[round] = (wall_ns() - start) / (each * producers);
        for (long i = 0; i < producers; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&gate);
    }
    qsort(ns, rounds, sizeof *ns, by_value);
    printf("least %.3f\nns %.3f\n", ns[0], ns[rounds / 2]);
    return 0;
}
