/* rte_meter: meters of two rates, drawn at random; one reading of the time for 32 packets.
 * usage: rte_meter EAL... -- METERS */
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_malloc.h>
#include <rte_meter.h>

#include "cpu.h"

enum { PACKETS = 1 << 24, BURST = 32 };

int main(int argc, char **argv)
{
    int given = rte_eal_init(argc, argv);
    if (given < 0 || argc < given + 2)
        return 2;
    uint32_t count = atoi(argv[given + 1]);
    struct rte_meter_trtcm_params params = {.cir = 1000000000, .pir = 2000000000, .cbs = 100000, .pbs = 100000};
    struct rte_meter_trtcm_profile profile;
    struct rte_meter_trtcm *meters = rte_malloc(NULL, count * sizeof *meters, 64);
    if (meters == NULL || rte_meter_trtcm_profile_config(&profile, &params) != 0)
        return 3;
    for (uint32_t i = 0; i < count; i++)
        rte_meter_trtcm_config(&meters[i], &profile);
    uint64_t state = 0x9e3779b97f4a7c15, now = 0;
    double start = cpu_ns();
    volatile unsigned colors = 0;
    for (int i = 0; i < PACKETS; i++) {
        if (i % BURST == 0)
            now = rte_rdtsc();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint32_t at = (state >> 32) * count >> 32;
        colors = rte_meter_trtcm_color_blind_check(&meters[at], &profile, now, 64);
    }
    (void)colors;
    printf("ns %.3f\n", (cpu_ns() - start) / PACKETS);
    return 0;
}
