/* A wire between the sender's device and the receiver's, in place of a queue: with a rate, a delay, and faults at given packets.
 *
 * Both devices' other ends are read and written by packet sockets. Data packets are counted from 1 as the wire sees them, with
 * retransmissions; so are ACKs, packets of the receiver without payload (without SYN and FIN). */
#define _GNU_SOURCE
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define FRAME_MAX 1600
#define ACTS_MAX 64
#define HEAD 96

enum act_kind { DROP, LATE, TWICE, MARK, ACK_DROP, ACK_LATE, ACK_TWICE, DARK, ACK_DARK, STALL, ACK_STALL, SYN_DROP, SYNACK_DROP };
static const char *const ACTS[] = { "drop", "late", "twice", "mark", "ack-drop", "ack-late", "ack-twice", "dark", "ack-dark",
				    "stall", "ack-stall", "syn-drop", "synack-drop" };

static struct act {
	enum act_kind kind;
	int64_t from, to, by;
} acts[ACTS_MAX];
static uint32_t act_count;
static int64_t rate, delay, delay_back, line_free;
static bool configured;
static int sides[2];
static uint64_t data_count, ack_count, syn_count, synack_count;

static struct frame {
	uint8_t side; /* where it came in */
	uint16_t length;
	unsigned char bytes[FRAME_MAX];
} *frames;
static uint32_t frame_count, frame_room;

/* What run.py reads: little-endian. kind: 0 seen, 1 delivered. side: 0 from the sender, 1 from the receiver. */
struct entry {
	int64_t at;
	uint16_t length;
	uint8_t side, kind;
	uint32_t number; /* of its sort, from 1; 0: neither data nor ACK */
	uint32_t cwnd, ssthresh, state, spare;
	unsigned char head[HEAD];
};
static struct entry *entries;
static uint32_t entry_count, entry_room;

bool wire_on(void)
{
	return configured;
}

void wire_config(const char *line)
{
	char name[32];
	long long a, b, c = 0;
	if (sscanf(line, "wire %lld %lld %lld", &a, &b, &c) == 3) {
		rate = a, delay = b, delay_back = c;
		configured = true;
		return;
	}
	int n = sscanf(line, "act %31s %lld %lld %lld", name, &a, &b, &c);
	for (unsigned k = 0; n >= 3 && act_count < ACTS_MAX && k < sizeof ACTS / sizeof *ACTS; k++)
		if (!strcmp(name, ACTS[k])) {
			acts[act_count++] = (struct act){ k, a, b, c };
			return;
		}
	errno = EINVAL;
	die(line);
}

void wire_open(int epoll)
{
	static const char *const DEVICES[] = { "r0", "r1" };
	int on = 1, bytes = 1 << 26;
	enter("r");
	for (int i = 0; i < 2; i++) {
		struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = if_nametoindex(DEVICES[i]) };
		sides[i] = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
		setsockopt(sides[i], SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
		setsockopt(sides[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
		if (setsockopt(sides[i], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) || bind(sides[i], (void *)&a, sizeof a))
			die("wire");
		struct epoll_event e = { .events = EPOLLIN, .data.u64 = (uint64_t)5 << 32 | (uint32_t)i };
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, sides[i], &e))
			die("epoll_ctl");
	}
}

static struct entry *log_frame(const struct frame *f, int64_t at, int kind, uint32_t number)
{
	if (entry_count == entry_room) {
		entry_room = entry_room ? 2 * entry_room : 4096;
		entries = realloc(entries, entry_room * sizeof *entries);
		if (!entries)
			die("memory");
	}
	struct entry *e = &entries[entry_count++];
	*e = (struct entry){ .at = at, .length = f->length, .side = f->side, .kind = kind, .number = number };
	memcpy(e->head, f->bytes, f->length < HEAD ? f->length : HEAD);
	return e;
}

/* Congestion experienced, and the header's checksum anew. */
static void mark(unsigned char *ip)
{
	uint32_t sum = 0;
	ip[1] |= 3;
	ip[10] = ip[11] = 0;
	for (int i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum >> 16) + (sum & 0xffff);
	sum += sum >> 16;
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

/* What a frame meets. */
struct fate {
	bool lost, marked, twice;
	int64_t late, again;
};

static void meet(struct fate *fate, const struct act *a, bool back, int64_t at, uint32_t data, uint32_t ack)
{
	bool data_hit = data && data >= a->from && data <= a->to, ack_hit = ack && ack >= a->from && ack <= a->to;
	bool time_hit = at >= a->from && at < a->to;
	fate->lost |= (a->kind == DROP && data_hit) || (a->kind == ACK_DROP && ack_hit) || (a->kind == DARK && !back && time_hit) ||
		      (a->kind == ACK_DARK && back && time_hit);
	if ((a->kind == LATE && data_hit) || (a->kind == ACK_LATE && ack_hit))
		fate->late += a->by;
	if ((a->kind == TWICE && data_hit) || (a->kind == ACK_TWICE && ack_hit))
		fate->twice = true, fate->again = a->by;
	fate->marked |= a->kind == MARK && data_hit;
}

static uint32_t keep(const struct frame *f)
{
	if (frame_count == frame_room) {
		frame_room = frame_room ? 2 * frame_room : 1024;
		frames = realloc(frames, frame_room * sizeof *frames);
		if (!frames)
			die("memory");
	}
	frames[frame_count] = *f;
	return frame_count++;
}

static void came(struct frame *f, int64_t at)
{
	const unsigned char *ip = f->bytes + 14, *tcp = ip + 20;
	int payload = (ip[2] << 8 | ip[3]) - 20 - (tcp[12] >> 4) * 4;
	bool syn = tcp[13] & 2, fin = tcp[13] & 1, back = f->side == 1;
	uint32_t data = !back && payload > 0 ? ++data_count : 0;
	uint32_t ack = back && payload == 0 && !syn && !fin ? ++ack_count : 0;
	struct fate fate = { 0 };
	for (uint32_t i = 0; i < act_count; i++)
		meet(&fate, &acts[i], back, at, data, ack);
	uint64_t number = !syn ? 0 : back ? ++synack_count : ++syn_count;
	for (uint32_t i = 0; syn && i < act_count; i++)
		if (acts[i].kind == (back ? SYNACK_DROP : SYN_DROP) && (int64_t)number >= acts[i].from && (int64_t)number <= acts[i].to)
			fate.lost = true;
	log_frame(f, at, 0, data ? data : ack);
	/* A lost frame is lost behind the line: it has taken its time there. */
	int64_t leaves = at;
	if (!back && rate) {
		int64_t begins = at > line_free ? at : line_free;
		leaves = line_free = begins + (int64_t)f->length * 8 * 1000000000 / rate;
	}
	if (fate.lost)
		return;
	if (fate.marked)
		mark(f->bytes + 14);
	int64_t arrives = leaves + (back ? delay_back : delay) + fate.late;
	for (uint32_t i = 0; i < act_count; i++)
		if (acts[i].kind == (back ? ACK_STALL : STALL) && arrives >= acts[i].from && arrives < acts[i].to)
			arrives = acts[i].to;
	schedule(arrives, DELIVER, 0, keep(f));
	if (fate.twice)
		schedule(arrives + fate.again, DELIVER, 0, keep(f));
}

void wire_read(int side)
{
	struct frame f = { .side = side };
	for (;;) {
		char control[128];
		struct iovec io = { f.bytes, FRAME_MAX };
		struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
		ssize_t n = recvmsg(sides[side], &m, 0);
		if (n < 0)
			return;
		if (m.msg_flags & MSG_TRUNC || n < 54)
			die("a frame of another size than expected");
		f.length = n;
		int64_t at = 0;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
				struct timespec t;
				memcpy(&t, CMSG_DATA(c), sizeof t);
				at = t.tv_sec * 1000000000LL + t.tv_nsec - real_offset - zero;
			}
		came(&f, at);
	}
}

void wire_deliver(int64_t number)
{
	struct frame *f = &frames[number];
	int64_t at = clock_ns(CLOCK_MONOTONIC) - zero;
	struct entry *e = log_frame(f, at, 1, 0);
	if (send(sides[1 - f->side], f->bytes, f->length, 0) < 0)
		die("wire");
	if (f->side == 1) {
		struct tcp_state s = state_of((uint16_t)(f->bytes[36] << 8 | f->bytes[37]));
		e->cwnd = s.cwnd, e->ssthresh = s.ssthresh, e->state = s.state;
	}
}

void wire_write(FILE *out)
{
	fwrite(entries, sizeof *entries, entry_count, out);
}
