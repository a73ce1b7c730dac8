/* A program of docs/c.md's shape: a queue with a rate, driven in virtual time, with every frame
 * counted. The test builds it against the header, links it with both libraries, and runs it. */
#include "txweir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                       \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);            \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

enum { PACKETS = 2000, BURST = 32 };

struct frame {
    int number;
    int returned;
};

struct dropped {
    int count;
    uint8_t reason;
};

static void discard(void *context, void *frame, uint8_t reason)
{
    struct dropped *dropped = context;
    dropped->count++;
    dropped->reason = reason;
    ((struct frame *)frame)->returned++;
}

static void apply(struct txweir *queue, uint64_t now, const char *policy)
{
    char error[500];
    if (txweir_apply(queue, now, policy, strlen(policy), error, sizeof error) != TXWEIR_OK) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

int main(void)
{
    static struct frame frames[PACKETS];
    struct dropped dropped = {0, 0};
    struct txweir_config config = txweir_config_default();
    config.role = TXWEIR_FORWARDER;
    config.byte_limit = false;
    struct txweir *queue = txweir_new(&config);
    CHECK(queue != NULL);
    CHECK(txweir_set_discard(queue, discard, &dropped) == TXWEIR_OK);

    /* A policy that is refused changes nothing, and names the place. */
    char error[500];
    const char *bad = "qdisc replace root tbf rate fast";
    CHECK(txweir_apply(queue, 0, bad, strlen(bad), error, sizeof error) == TXWEIR_REFUSED);
    CHECK(strstr(error, "policy:1:") != NULL && strstr(error, "fast") != NULL);
    apply(queue, 0, "qdisc replace root handle 1: tbf rate 8mbit burst 2000 limit 1500000\n"
                    "qdisc add parent 1:1 handle 10: fq_codel limit 500\n");

    /* 2000 packets of 1000 bytes in 20 flows: 500 fit at most. */
    for (int first = 0; first < PACKETS; first += BURST) {
        struct txweir_packet burst[BURST];
        memset(burst, 0, sizeof burst);
        int n = PACKETS - first < BURST ? PACKETS - first : BURST;
        for (int i = 0; i < n; i++) {
            frames[first + i].number = first + i;
            burst[i].frame = &frames[first + i];
            burst[i].length = 1000;
            burst[i].flow = txweir_flow((uint64_t)((first + i) % 20));
            burst[i].protocol = 0x0800;
        }
        uint8_t fates[BURST];
        CHECK(txweir_submit(queue, 0, burst, (size_t)n, fates) == (size_t)n);
    }
    struct txweir_stats stats;
    CHECK(txweir_get_stats(queue, &stats) == TXWEIR_OK);
    /* fq_codel drops some packets of the longest flow at a time. */
    CHECK(stats.submitted == PACKETS && stats.sent == 0);
    CHECK(stats.waiting > 400 && stats.waiting <= 500);
    CHECK(stats.dropped + stats.waiting == PACKETS && (uint64_t)dropped.count == stats.dropped);
    char name[40];
    CHECK(txweir_reason(dropped.reason, name, sizeof name) > 0);
    CHECK(txweir_reason(255, name, sizeof name) == 0);

    /* 8 Mbit/s are a packet each millisecond, after a burst of two. */
    uint64_t now = 0;
    int sent = 0;
    while (now < 100000000) {
        struct txweir_packet out[BURST];
        struct txweir_next next;
        size_t n = txweir_pull(queue, now, out, BURST, &next);
        for (size_t i = 0; i < n; i++) {
            ((struct frame *)out[i].frame)->returned++;
            CHECK(out[i].length == 1000);
        }
        sent += (int)n;
        CHECK(next.kind == TXWEIR_AT && next.at_ns > now);
        now = next.at_ns;
    }
    CHECK(sent >= 100 && sent <= 102);

    /* The text is cut as snprintf cuts it. */
    size_t length = txweir_show(queue, true, NULL, 0);
    char *text = malloc(length + 1);
    CHECK(text != NULL && txweir_show(queue, true, text, length + 1) == length);
    CHECK(strstr(text, "\"fq_codel\"") != NULL && strlen(text) == length);
    char little[8];
    CHECK(txweir_show(queue, true, little, sizeof little) == length && strlen(little) == 7);
    free(text);

    /* A frame's own headers: IPv4, UDP, TOS 0xb8. */
    const uint8_t bytes[42] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0xb8, 0, 28, 0, 0, 0, 0,
                               64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53, 0, 8, 0, 0};
    struct txweir_packet read = {.frame = &read, .launch_ns = 7, .mark = 5, .class_id = 0x10010,
                                 .gso_size = 1448, .header_length = 66};
    CHECK(txweir_read(queue, bytes, sizeof bytes, 42, &read) == TXWEIR_OK);
    CHECK(read.tos == 0xb8 && read.protocol == 0x0800 && read.flow != 0 && read.length == 42);
    CHECK(read.frame == &read && read.launch_ns == 7 && read.flags == 0);
    CHECK(read.mark == 5 && read.class_id == 0x10010);
    CHECK(read.gso_size == 1448 && read.header_length == 66);

    /* A null queue takes no packet and has none. */
    struct txweir_next none;
    uint8_t fate;
    CHECK(txweir_submit(NULL, 0, &read, 1, &fate) == 0 && fate == TXWEIR_FULL);
    CHECK(txweir_pull(NULL, 0, &read, 1, &none) == 0 && none.kind == TXWEIR_IDLE);
    CHECK(txweir_completed(NULL, 0, 0, 0) == TXWEIR_BROKEN);

    /* The end gives back what waits: each frame came back once. */
    txweir_free(queue);
    for (int i = 0; i < PACKETS; i++)
        CHECK(frames[i].returned == 1);
    CHECK(sent + dropped.count == PACKETS);
    printf("%s: %d sent, %d discarded\n", txweir_version(), sent, dropped.count);
    return 0;
}
