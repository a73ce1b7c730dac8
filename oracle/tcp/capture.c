/* Notes each TCP packet from the senders that passes a device: through a packet socket's ring, which copies the headers in the
 * very instant and keeps no packet, so that the traffic is as it would be without. */
#define _GNU_SOURCE
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define FRAME 128
#define BLOCK (1 << 16)
#define BLOCKS 128
#define FRAMES (BLOCK / FRAME * BLOCKS)

/* What run.py reads: little-endian, 24 bytes. */
struct note {
	int64_t at; /* ns since time 0 */
	uint32_t seq;
	uint16_t flow;
	uint16_t id;      /* IPv4's */
	uint16_t payload; /* bytes of TCP */
	uint16_t length;  /* of the IPv4 packet */
	uint8_t tos;
	uint8_t flags;
	uint16_t spare;
};

static struct capture {
	int socket;
	unsigned char *ring;
	uint32_t next;
	struct note *notes;
	uint32_t count, room;
} captures[2] = { { .socket = -1 }, { .socket = -1 } };

void capture_open(int index, const char *ns, const char *device)
{
	struct capture *c = &captures[index];
	int version = TPACKET_V2;
	struct tpacket_req request = { .tp_block_size = BLOCK, .tp_block_nr = BLOCKS, .tp_frame_size = FRAME, .tp_frame_nr = FRAMES };
	enter(ns);
	/* Of a dummy device only what goes out can be seen, for which all protocols must be asked for. */
	int protocol = htons(!strcmp(device, "m0") ? ETH_P_ALL : ETH_P_IP);
	c->socket = socket(AF_PACKET, SOCK_RAW, 0);
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = protocol, .sll_ifindex = if_nametoindex(device) };
	if (c->socket < 0 || setsockopt(c->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
	    setsockopt(c->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request))
		die("packet ring");
	c->ring = mmap(0, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, c->socket, 0);
	if (c->ring == MAP_FAILED || bind(c->socket, (void *)&a, sizeof a))
		die("packet ring");
}

static void note(struct capture *c, const struct tpacket2_hdr *h)
{
	const unsigned char *ip = (const unsigned char *)h + h->tp_net, *tcp = ip + 20;
	uint16_t length = ip[2] << 8 | ip[3], flow = (tcp[0] << 8 | tcp[1]) - PORT_SENDER;
	if (ip[0] != 0x45 || ip[9] != IPPROTO_TCP || flow >= FLOWS_MAX)
		return;
	if (c->count == c->room) {
		c->room = c->room ? 2 * c->room : 1 << 16;
		c->notes = realloc(c->notes, c->room * sizeof *c->notes);
		if (!c->notes)
			die("memory");
	}
	c->notes[c->count++] = (struct note){
		.at = h->tp_sec * 1000000000LL + h->tp_nsec - real_offset - zero,
		.seq = (uint32_t)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7],
		.flow = flow,
		.id = ip[4] << 8 | ip[5],
		.payload = length - 20 - (tcp[12] >> 4) * 4,
		.length = length,
		.tos = ip[1],
		.flags = tcp[13],
	};
}

void capture_drain(int index)
{
	struct capture *c = &captures[index];
	if (c->socket < 0)
		return;
	for (;;) {
		struct tpacket2_hdr *h = (void *)(c->ring + (size_t)c->next * FRAME);
		uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
		if (!(status & TP_STATUS_USER))
			return;
		if (status & TP_STATUS_LOSING) {
			errno = ENOBUFS;
			die("capture");
		}
		note(c, h);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		c->next = (c->next + 1) % FRAMES;
	}
}

void capture_write(int index, FILE *out)
{
	fwrite(captures[index].notes, sizeof(struct note), captures[index].count, out);
}
