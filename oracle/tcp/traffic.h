/* Shared by the traffic program's files: the run, its events, its captures and its wire. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FLOWS_MAX 256
/* Source ports are PORT_SENDER + flow; a listener has PORT_RECEIVER + its congestion control. */
#define PORT_SENDER 10000
#define PORT_RECEIVER 5001

enum event_kind { START, WRITE, FINISH, RESUME, REQUEST, SAMPLE, DRAIN, DELIVER, END };

struct event {
	int64_t at; /* ns since time 0 */
	uint64_t order;
	enum event_kind kind;
	uint32_t flow;
	int64_t value; /* bytes to write; or the number of a frame on the wire */
};

void die(const char *what);
int64_t clock_ns(int clock);
void schedule(int64_t at, enum event_kind kind, uint32_t flow, int64_t value);
void enter(const char *ns);
/* Time 0 on the monotonic clock, and the realtime clock minus the monotonic one. */
extern int64_t zero, real_offset;
/* cwnd, ssthresh and congestion state of the flow whose source port this is, as its socket says now. */
struct tcp_state {
	uint32_t cwnd, ssthresh, state;
};
struct tcp_state state_of(uint16_t port);

/* capture.c: rings that note each packet that passes a device. */
void capture_open(int index, const char *ns, const char *device);
void capture_drain(int index);
void capture_write(int index, FILE *out);

/* wire.c: a wire between two devices, with exact losses. */
void wire_config(const char *line);
bool wire_on(void);
void wire_open(int epoll);
/* A frame came in on side 0 (of the sender) or 1 (of the receiver). */
void wire_read(int side);
void wire_deliver(int64_t frame);
void wire_write(FILE *out);

#endif
