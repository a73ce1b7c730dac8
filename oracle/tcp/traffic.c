/* The traffic of a run: TCP connections between network namespaces, at times that the run gives.
 *
 *   traffic FOLDER
 *
 * FOLDER/run says what to do, a line a thing (run.py writes it). The results: FOLDER/result (text), FOLDER/capture-0 and -1,
 * FOLDER/wire. One process sleeps in epoll and never polls: its work takes no virtual time, a clock reading takes one grain, so the
 * clock is read only where a transfer ends. */
#define _GNU_SOURCE
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Time 0 is a multiple of 8.192 s of the monotonic clock, plus the run's offset: ticks are at whole milliseconds. */
#define ALIGN 8192000000LL
/* The policy is set up this long before time 0. */
#define LEAD 100000000LL
#define CHUNK (256 << 10)
#define LATENCIES_MAX 20000

enum app { BULK, BYTES, RR, SCRIPT };

struct flow {
	char cc[16];
	enum app app;
	int64_t start;
	int64_t a, b, gap, count; /* bytes; or request, reply, pause, transactions (0: no end) */
	int client, server;       /* sockets, -1 if there is none yet */
	bool connected, stopped, ended;
	int64_t client_left, server_left; /* bytes still to write, -1: no end */
	int64_t client_read, server_read, server_want;
	bool finish;
	int64_t hold_from, hold_to; /* the receiver does not read from .. to */
	bool held;
	int64_t done; /* when the last byte was read, -1: not yet */
	int64_t asked;
};

static struct flow flows[FLOWS_MAX];
static uint32_t flow_count;
static char zeros[CHUNK];
static int epoll, timer;
static FILE *result;
static int64_t end_at, step = 0, drain_every = 0, offset_ns, lead_ns = LEAD;
static uint32_t sample_flows;
static struct { uint32_t flow; int64_t at, took; } latencies[LATENCIES_MAX];
static uint32_t latency_count;
int64_t zero, real_offset;

void die(const char *what)
{
	fprintf(stderr, "traffic: %s: %s\n", what, strerror(errno));
	exit(1);
}

int64_t clock_ns(int clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void enter(const char *ns)
{
	char path[64];
	snprintf(path, sizeof path, "/run/netns/%s", ns);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

/* A heap of events, earliest first, in the order of their making within one time. */
static struct event *heap;
static uint32_t heap_len, heap_cap;
static uint64_t heap_order;

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void schedule(int64_t at, enum event_kind kind, uint32_t flow, int64_t value)
{
	if (heap_len == heap_cap) {
		heap_cap = heap_cap ? 2 * heap_cap : 1024;
		heap = realloc(heap, heap_cap * sizeof *heap);
		if (!heap)
			die("memory");
	}
	struct event e = { at, heap_order++, kind, flow, value };
	uint32_t i = heap_len++;
	for (; i > 0 && sooner(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event earliest(void)
{
	struct event top = heap[0], last = heap[--heap_len];
	uint32_t i = 0;
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child + 1 < heap_len && sooner(&heap[child + 1], &heap[child]))
			child++;
		if (child >= heap_len || !sooner(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return top;
}

static void set_feature(int s, const char *device, uint32_t command, uint32_t value)
{
	struct ethtool_value v = { command, value };
	struct ifreq request = { .ifr_data = (void *)&v };
	snprintf(request.ifr_name, IFNAMSIZ, "%.15s", device);
	if (ioctl(s, SIOCETHTOOL, &request))
		die(device);
}

/* Offloads of a device: `units` keeps super-packets whole, `plain` has neither them nor checksums left to a device. */
static void offload(const char *ns, const char *device, const char *mode)
{
	enter(ns);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	set_feature(s, device, ETHTOOL_SGRO, 0);
	if (strcmp(mode, "units")) {
		set_feature(s, device, ETHTOOL_STSO, 0);
		set_feature(s, device, ETHTOOL_SGSO, 0);
	}
	if (!strcmp(mode, "plain")) {
		set_feature(s, device, ETHTOOL_SSG, 0);
		set_feature(s, device, ETHTOOL_STXCSUM, 0);
	}
	close(s);
}

static void sysctl(const char *ns, const char *key, const char *value)
{
	char path[128];
	enter(ns);
	snprintf(path, sizeof path, "/proc/sys/net/%s", key);
	FILE *f = fopen(path, "w");
	if (!f || fputs(value, f) < 0 || fclose(f))
		die(path);
}

static void watch(int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

/* The upper half of an epoll cookie says what the file is, the lower half which. */
enum { CLIENT = 1, SERVER, LISTENER, TIMER, WIRE };
#define COOKIE(kind, n) ((uint64_t)(kind) << 32 | (uint32_t)(n))

static struct sockaddr_in address(const char *host, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, host, &a.sin_addr);
	return a;
}

static const char *const CONTROLS[] = { "reno", "cubic", "bbr", "dctcp" };
static char receiver_host[32] = "10.0.2.2";

static int port_of(const char *cc)
{
	for (int i = 0; i < 4; i++)
		if (!strcmp(cc, CONTROLS[i]))
			return PORT_RECEIVER + i;
	errno = EINVAL;
	die(cc);
	return 0;
}

static void open_sockets(void)
{
	int on = 1;
	enter("d");
	for (int i = 0; i < 4; i++) {
		int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		struct sockaddr_in a = address(receiver_host, PORT_RECEIVER + i);
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, CONTROLS[i], strlen(CONTROLS[i])) ||
		    bind(s, (void *)&a, sizeof a) || listen(s, FLOWS_MAX))
			die("listener");
		watch(s, EPOLLIN, COOKIE(LISTENER, s));
	}
	enter("s");
	for (uint32_t i = 0; i < flow_count; i++) {
		int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		struct sockaddr_in a = address("0.0.0.0", PORT_SENDER + i);
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, flows[i].cc, strlen(flows[i].cc)) || bind(s, (void *)&a, sizeof a))
			die("sender");
		flows[i].client = s;
		schedule(flows[i].start, START, i, 0);
	}
}

/* Writes as much as the socket takes; `left` is what is still to be written, -1: no end. */
static void push(int fd, int64_t *left)
{
	while (*left) {
		size_t want = *left < 0 || *left > CHUNK ? CHUNK : (size_t)*left;
		ssize_t n = send(fd, zeros, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return;
		if (*left > 0)
			*left -= n;
		if ((size_t)n < want)
			return;
	}
}

static void push_client(struct flow *f)
{
	if (!f->connected || f->stopped)
		return;
	push(f->client, &f->client_left);
	if (f->finish && f->client_left == 0) {
		f->stopped = true;
		shutdown(f->client, SHUT_WR);
	}
}

static void start(struct flow *f)
{
	struct sockaddr_in a = address(receiver_host, port_of(f->cc));
	watch(f->client, EPOLLIN | EPOLLOUT | EPOLLET, COOKIE(CLIENT, f - flows));
	if (connect(f->client, (void *)&a, sizeof a) && errno != EINPROGRESS)
		die("connect");
	if (f->app == RR)
		f->asked = f->start;
}

static void request(struct flow *f)
{
	f->client_left += f->a;
	f->asked = clock_ns(CLOCK_MONOTONIC) - zero;
	push_client(f);
}

/* The client's socket can be read or written. */
static void client_ready(struct flow *f, uint32_t events)
{
	if (!f->connected && events & EPOLLOUT) {
		f->connected = true;
		if (f->app == RR)
			request(f);
	}
	if (events & EPOLLIN) {
		ssize_t n;
		while ((n = recv(f->client, zeros, 1 << 30, MSG_DONTWAIT | MSG_TRUNC)) > 0)
			f->client_read += n;
		if (f->app == RR && f->client_read >= f->b) {
			f->client_read -= f->b;
			int64_t now = clock_ns(CLOCK_MONOTONIC) - zero;
			if (latency_count < LATENCIES_MAX) {
				latencies[latency_count].flow = f - flows;
				latencies[latency_count].at = f->asked;
				latencies[latency_count++].took = now - f->asked;
			}
			if (f->count == 0 || --f->count > 0)
				schedule(now + f->gap, REQUEST, f - flows, 0);
			else
				f->finish = true;
		}
	}
	push_client(f);
}

static void server_ready(struct flow *f, uint32_t events)
{
	if (events & EPOLLIN && !f->held) {
		for (;;) {
			ssize_t n = recv(f->server, zeros, 1 << 30, MSG_DONTWAIT | MSG_TRUNC);
			if (n == 0 && !f->ended) {
				/* Once: each shutdown wakes the process anew. */
				f->ended = true;
				shutdown(f->server, SHUT_WR);
			}
			if (n <= 0)
				break;
			f->server_read += n;
			if (n < 1 << 30)
				break;
		}
		if (f->app == BYTES && f->server_read >= f->a && f->done < 0)
			f->done = clock_ns(CLOCK_MONOTONIC) - zero;
		while (f->app == RR && f->server_read >= f->server_want + f->a) {
			f->server_want += f->a;
			f->server_left += f->b;
		}
	}
	push(f->server, &f->server_left);
}

static void accept_all(int listener)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int fd;
	while ((fd = accept4(listener, (void *)&peer, &len, SOCK_NONBLOCK)) >= 0) {
		uint32_t i = ntohs(peer.sin_port) - PORT_SENDER;
		if (i >= flow_count)
			die("a stranger connects");
		flows[i].server = fd;
		watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, COOKIE(SERVER, i));
		len = sizeof peer;
	}
}

static struct tcp_info info_of(const struct flow *f)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof info;
	getsockopt(f->client, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info;
}

struct tcp_state state_of(uint16_t port)
{
	uint32_t i = port - PORT_SENDER;
	if (i >= flow_count)
		return (struct tcp_state){ 0, 0, 0 };
	struct tcp_info info = info_of(&flows[i]);
	return (struct tcp_state){ info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh, info.tcpi_ca_state };
}

static void sample(int64_t at)
{
	for (uint32_t i = 0; i < flow_count; i++) {
		fprintf(result, "read %lld %u %lld\n", (long long)at, i, (long long)flows[i].server_read);
		if (at < flows[i].start || i >= sample_flows)
			continue;
		struct tcp_info t = info_of(&flows[i]);
		fprintf(result, "info %lld %u %u %u %u %u %llu %llu %u %u\n", (long long)at, i, t.tcpi_snd_cwnd, t.tcpi_snd_ssthresh,
			t.tcpi_rtt, t.tcpi_min_rtt, (unsigned long long)t.tcpi_delivery_rate, (unsigned long long)t.tcpi_pacing_rate,
			t.tcpi_total_retrans, t.tcpi_ca_state);
	}
}

static void copy_counters(const char *ns, const char *file)
{
	char path[64], line[8192];
	snprintf(path, sizeof path, "/proc/thread-self/net/%s", file);
	enter(ns);
	FILE *f = fopen(path, "r");
	if (!f)
		die(path);
	while (fgets(line, sizeof line, f))
		fprintf(result, "counter %s %s %s", ns, file, line);
	fclose(f);
}

static void finish(const char *folder)
{
	char path[256];
	for (uint32_t i = 0; i < flow_count; i++) {
		struct tcp_info t = info_of(&flows[i]);
		fprintf(result, "end %u %u %lld %llu %llu\n", i, t.tcpi_total_retrans, (long long)flows[i].done,
			(unsigned long long)t.tcpi_sndbuf_limited, (unsigned long long)t.tcpi_rwnd_limited);
	}
	for (uint32_t i = 0; i < latency_count; i++)
		fprintf(result, "latency %u %lld %lld\n", latencies[i].flow, (long long)latencies[i].at, (long long)latencies[i].took);
	static const char *const NAMES[] = { "s", "d" };
	for (int i = 0; i < 2; i++) {
		copy_counters(NAMES[i], "netstat");
		copy_counters(NAMES[i], "snmp");
	}
	copy_counters("s", "softnet_stat");
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/capture-%d", folder, i);
		FILE *f = fopen(path, "w");
		capture_write(i, f);
		fclose(f);
	}
	if (wire_on()) {
		snprintf(path, sizeof path, "%s/wire", folder);
		FILE *f = fopen(path, "w");
		wire_write(f);
		fclose(f);
	}
}

/* One line of the run. */
static void configure(const char *line)
{
	char ns[16], key[64], value[64], cc[16], app[16];
	struct flow *f = &flows[flow_count];
	long long v[6];
	unsigned i;
	int index;
	if (sscanf(line, "end %lld", &v[0]) == 1) {
		end_at = v[0];
	} else if (sscanf(line, "lead %lld", &v[0]) == 1) {
		lead_ns = v[0];
	} else if (sscanf(line, "offset %lld", &v[0]) == 1) {
		offset_ns = v[0];
	} else if (sscanf(line, "receiver %31s", receiver_host) == 1) {
	} else if (sscanf(line, "sample %lld %u", &v[0], &i) == 2) {
		step = v[0];
		sample_flows = i;
	} else if (sscanf(line, "drain %lld", &v[0]) == 1) {
		drain_every = v[0];
	} else if (sscanf(line, "sysctl %15s %63s %63[^\n]", ns, key, value) == 3) {
		sysctl(ns, key, value);
	} else if (sscanf(line, "offload %15s %63s %15s", ns, key, app) == 3) {
		offload(ns, key, app);
	} else if (sscanf(line, "capture %d %15s %63s", &index, ns, key) == 3) {
		capture_open(index, ns, key);
	} else if (!strncmp(line, "wire ", 5) || !strncmp(line, "act ", 4)) {
		wire_config(line);
	} else if (sscanf(line, "flow %15s %lld %15s %lld %lld %lld %lld", cc, &v[0], app, &v[1], &v[2], &v[3], &v[4]) == 7) {
		if (flow_count == FLOWS_MAX)
			die("too many flows");
		*f = (struct flow){ .start = v[0], .a = v[1], .b = v[2], .gap = v[3], .count = v[4], .client = -1, .server = -1, .done = -1 };
		strcpy(f->cc, cc);
		f->app = !strcmp(app, "bulk") ? BULK : !strcmp(app, "bytes") ? BYTES : !strcmp(app, "rr") ? RR : SCRIPT;
		f->client_left = f->app == BULK ? -1 : f->app == BYTES ? f->a : 0;
		f->finish = f->app == BYTES;
		flow_count++;
	} else if (sscanf(line, "write %u %lld %lld", &i, &v[0], &v[1]) == 3) {
		schedule(v[0], WRITE, i, v[1]);
	} else if (sscanf(line, "finish %u %lld", &i, &v[0]) == 2) {
		schedule(v[0], FINISH, i, 0);
	} else if (sscanf(line, "hold %u %lld %lld", &i, &v[0], &v[1]) == 3) {
		schedule(v[0], RESUME, i, 1);
		schedule(v[1], RESUME, i, 0);
	} else {
		errno = EINVAL;
		die(line);
	}
}

static void play(struct event e)
{
	struct flow *f = &flows[e.flow];
	switch (e.kind) {
	case START:
		start(f);
		break;
	case WRITE:
		f->client_left += e.value;
		push_client(f);
		break;
	case FINISH:
		f->finish = true;
		push_client(f);
		break;
	case RESUME:
		f->held = e.value;
		if (!f->held && f->server >= 0)
			server_ready(f, EPOLLIN);
		break;
	case REQUEST:
		request(f);
		break;
	case SAMPLE:
		sample(e.at);
		if (e.at + step <= end_at)
			schedule(e.at + step, SAMPLE, 0, 0);
		break;
	case DRAIN:
		capture_drain(0);
		capture_drain(1);
		schedule(e.at + drain_every, DRAIN, 0, 0);
		break;
	case DELIVER:
		wire_deliver(e.value);
		break;
	case END:
		break;
	}
}

static void arm(int64_t at)
{
	int64_t t = zero + at;
	struct itimerspec when = { .it_value = { t / 1000000000, t % 1000000000 } };
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, 0))
		die("timerfd_settime");
}

static void loop(void)
{
	struct epoll_event events[64];
	int64_t armed = -1;
	uint64_t ticks;
	for (;;) {
		if (heap[0].at != armed) {
			armed = heap[0].at;
			arm(armed);
		}
		int n = epoll_wait(epoll, events, 64, -1);
		for (int i = 0; i < n; i++) {
			uint32_t which = (uint32_t)events[i].data.u64;
			switch (events[i].data.u64 >> 32) {
			case CLIENT:
				client_ready(&flows[which], events[i].events);
				break;
			case SERVER:
				server_ready(&flows[which], events[i].events);
				break;
			case LISTENER:
				accept_all(which);
				break;
			case WIRE:
				wire_read(which);
				break;
			case TIMER:
				if (read(timer, &ticks, sizeof ticks) < 0)
					break;
				int64_t due = armed;
				armed = -1;
				while (heap_len && heap[0].at <= due) {
					struct event e = earliest();
					if (e.kind == END)
						return;
					play(e);
				}
			}
		}
	}
}

static void command(const char *folder, const char *script)
{
	char line[512];
	snprintf(line, sizeof line, "sh %s/%s", folder, script);
	if (system(line))
		die(script);
}

int main(int argc, char **argv)
{
	char path[256], line[512];
	const char *folder = argc > 1 ? argv[1] : ".";
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	epoll = epoll_create1(0);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	watch(timer, EPOLLIN, COOKIE(TIMER, 0));
	snprintf(path, sizeof path, "%s/run", folder);
	FILE *run = fopen(path, "r");
	if (!run)
		die(path);
	while (fgets(line, sizeof line, run))
		configure(line);
	fclose(run);
	snprintf(path, sizeof path, "%s/result", folder);
	result = fopen(path, "w");
	if (!result)
		die(path);
	open_sockets();
	if (wire_on())
		wire_open(epoll);
	/* Behind what is due at the same time. */
	schedule(end_at + 1, END, 0, 0);
	if (step)
		schedule(step, SAMPLE, 0, 0);
	if (drain_every)
		schedule(drain_every, DRAIN, 0, 0);
	/* The offset between the two clocks: the realtime reading is one grain after the first. */
	int64_t before = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME), after = clock_ns(CLOCK_MONOTONIC);
	real_offset = real - (before + after) / 2;
	zero = (after + lead_ns) / ALIGN * ALIGN + ALIGN;
	struct timespec policy_at = { (zero - lead_ns) / 1000000000, (zero - lead_ns) % 1000000000 };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &policy_at, 0);
	command(folder, "policy");
	zero += offset_ns;
	loop();
	int64_t over = clock_ns(CLOCK_MONOTONIC) - zero;
	command(folder, "show");
	capture_drain(0);
	capture_drain(1);
	fprintf(result, "over %lld\nzero %lld\n", (long long)over, (long long)zero);
	finish(folder);
	fclose(result);
	return 0;
}
