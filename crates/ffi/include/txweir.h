/* txweir: a transmit queue with Linux's qdiscs, for C. MIT OR Apache-2.0.
 *
 * A queue is a value: it has no thread, no clock and no I/O. A program submits packets with
 * txweir_submit, and takes those that may leave now with txweir_pull. Both take the time, in
 * nanoseconds of any clock that does not go back. The policy is text of tc(8).
 *
 * Threads: one queue is used by one thread at a time; different queues are independent.
 * Frames: the library keeps the pointer of a packet and never looks behind it. It gives each pointer
 * back exactly once: by txweir_pull, or to the discard function.
 * Faults: no function ends the program or unwinds into it. A queue in which a fault was found
 * answers TXWEIR_BROKEN from then on, as a null queue does; txweir_free takes either. txweir_submit
 * and txweir_pull have no such answer: no packet finds room there, and none waits. So a loop looks
 * at the result of txweir_completed or txweir_get_stats.
 */

#ifndef TXWEIR_H
#define TXWEIR_H

/* Made by cargo xtask header: change crates/ffi/src/abi.rs. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Success.
 */
#define TXWEIR_OK 0

/*
 An argument other than the queue is null, or out of its range.
 */
#define TXWEIR_INVALID -1

/*
 The policy was refused; the queue is as it was.
 */
#define TXWEIR_REFUSED -2

/*
 The queue is null, or a fault was found in it: only txweir_free may still be called.
 */
#define TXWEIR_BROKEN -3

/*
 A queue that is full gives a packet back, and txweir_take_wake tells when to try again.
 */
#define TXWEIR_ORIGIN 0

/*
 A queue that is full drops a packet: cake, fq_codel and sfq from the longest flow.
 */
#define TXWEIR_FORWARDER 1

/*
 Fate of a packet: it waits.
 */
#define TXWEIR_QUEUED 0

/*
 It was dropped, and the discard function has its frame.
 */
#define TXWEIR_DROPPED 1

/*
 There is no room (TXWEIR_ORIGIN): the frame is still the program's.
 */
#define TXWEIR_FULL 2

/*
 It is larger than a shaper's bucket: the frame is still the program's, to cut or to drop.
 */
#define TXWEIR_TOO_LARGE 3

/*
 The packet is a TCP segment with control and no data: SYN, SYN-ACK, pure ACK.
 */
#define TXWEIR_TCP_CONTROL 1

/*
 Out: an AQM has marked the packet: set CE in its IP header.
 */
#define TXWEIR_MARK 2

/*
 Out: clear the DSCP in its IP header.
 */
#define TXWEIR_WASH 4

/*
 Nothing waits.
 */
#define TXWEIR_IDLE 0

/*
 Packets wait, and may leave when the device has finished something (txweir_completed).
 */
#define TXWEIR_DEVICE 1

/*
 Packets wait, and nothing may leave before the given time.
 */
#define TXWEIR_AT 2

/*
 Packets wait that may leave now: the pull took as many as it was asked for.
 */
#define TXWEIR_MORE 3

/*
 A transmit queue.
 */
struct txweir;

/*
 The properties of a queue. txweir_config_default fills it.
 */
struct txweir_config {
  /*
   Most packets that wait at once.
   */
  uint32_t packets;
  /*
   Largest network-layer packet of the device, bytes.
   */
  uint32_t mtu;
  /*
   Bytes of the link-layer header in front of it.
   */
  uint32_t link_header;
  /*
   The length of the device's queue, packets: the default limit of several kinds.
   */
  uint32_t queue_length;
  /*
   Speed of the device, bytes per second; 0 if it is not known.
   */
  uint64_t link_rate;
  /*
   Most bytes of tables that the qdiscs have together.
   */
  uint64_t memory;
  /*
   Start of all that is drawn: the hash of flows, and the chances of qdiscs.
   */
  uint64_t seed;
  /*
   TXWEIR_ORIGIN or TXWEIR_FORWARDER.
   */
  uint8_t role;
  /*
   True if a byte limit learns how much the device needs in flight (Linux: BQL). Then the
   program tells each packet that its device has finished, by txweir_completed.
   */
  bool byte_limit;
};

/*
 A function that takes back the frame of a dropped packet; `reason` is the number of
 txweir_reason. It must not call the queue.
 */
typedef void (*txweir_discard)(void *context, void *frame, uint8_t reason);

/*
 A packet. Zeros are good for all but frame and length.
 */
struct txweir_packet {
  /*
   The program's pointer; the library never looks behind it.
   */
  void *frame;
  /*
   The time before which it must not leave, ns; 0 if it has none (fq, etf).
   */
  uint64_t launch_ns;
  /*
   Bytes of the frame, link header included.
   */
  uint32_t length;
  /*
   Flow hash: 32 well mixed bits. txweir_read gives one, and txweir_flow mixes a number.
   */
  uint32_t flow;
  /*
   Priority (tc-prio(8)); a value whose upper half is a qdisc's handle names one of its
   classes.
   */
  uint32_t priority;
  /*
   Firewall mark.
   */
  uint32_t mark;
  /*
   Class chosen ahead, major number in the upper half; 0 for none.
   */
  uint32_t class_id;
  /*
   Payload bytes of a segment; 0 if it is not a super-packet.
   */
  uint16_t gso_size;
  /*
   Bytes of headers that each segment repeats.
   */
  uint16_t header_length;
  /*
   Ethertype, in the machine's byte order.
   */
  uint16_t protocol;
  /*
   DS field with the ECN bits (TOS, traffic class).
   */
  uint8_t tos;
  /*
   TXWEIR_TCP_CONTROL; from txweir_pull TXWEIR_MARK and TXWEIR_WASH too.
   */
  uint8_t flags;
};

/*
 The time of the next pull.
 */
struct txweir_next {
  /*
   TXWEIR_IDLE, TXWEIR_DEVICE, TXWEIR_AT or TXWEIR_MORE.
   */
  uint8_t kind;
  /*
   The time of TXWEIR_AT, ns.
   */
  uint64_t at_ns;
};

/*
 Counters of a queue. `submitted = sent + dropped + waiting`, at every instant, as long as no
 policy duplicates.
 */
struct txweir_stats {
  /*
   Packets that entered or were dropped on the way in: all that did not stay the program's.
   */
  uint64_t submitted;
  /*
   Packets that a pull has taken.
   */
  uint64_t sent;
  /*
   Their bytes on the wire.
   */
  uint64_t sent_bytes;
  /*
   Packets dropped, under earlier policies too.
   */
  uint64_t dropped;
  /*
   Packets that wait.
   */
  uint64_t waiting;
  /*
   Their bytes.
   */
  uint64_t waiting_bytes;
  /*
   Times that a sender found no room.
   */
  uint64_t full;
  /*
   Times that the byte limit held packets back.
   */
  uint64_t held_by_limit;
  /*
   The byte limit, bytes; 0 without one.
   */
  uint64_t limit;
  /*
   Bytes that the program's device has not finished, as the byte limit counts them.
   */
  uint64_t in_flight;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the properties of an Ethernet device: 16384 packets, role TXWEIR_ORIGIN, a byte limit.
 */
struct txweir_config txweir_config_default(void);

/*
 Makes a queue with pfifo_fast; null stands for the default properties. Returns null if a number
 is out of its range. The queue takes all memory for packets here, some 200 bytes for each that
 may wait, and a qdisc takes all of its own when a policy is applied: a program that the system
 gives no more memory ends there, and nowhere else.

 # Safety
 `config` is null or points to a configuration.
 */
struct txweir *txweir_new(const struct txweir_config *config);

/*
 Ends a queue: the discard function gets the frames that wait. Null is good.

 # Safety
 `queue` is null or comes from `txweir_new`, and is used by nobody from then on.
 */
void txweir_free(struct txweir *queue);

/*
 Sets the function that takes back the frames of dropped packets; null for none. Without one, the
 frame of a packet that is dropped while it waits is forgotten.

 # Safety
 The function may be called with `context` until the queue ends or another one is set.
 */
int32_t txweir_set_discard(struct txweir *queue, txweir_discard discard, void *context);

/*
 Applies lines of tc, all or none: `qdisc replace root fq_codel`. Packets that wait are kept. On
 TXWEIR_REFUSED `error` (of `room` bytes, or null) gets the reason, with the place in the text.
 Filters are refused: the program sets class_id or priority, or txweir_read does.

 # Safety
 `text` points to `length` bytes; `error` is null or points to `room` bytes.
 */
int32_t txweir_apply(struct txweir *queue,
                     uint64_t now_ns,
                     const char *text,
                     size_t length,
                     char *error,
                     size_t room);

/*
 Submits packets in their order. `fates` is null, or gets the fate of each packet that was looked
 at: those before the result, and the one at it, which is TXWEIR_FULL. Returns the number of
 packets before the first one without room, or `count`. Without `fates` the discard function gets
 a packet that is too large. Calls of 8 to 64 packets are cheapest.

 A fault ends the call: the result is the number of packets before it. A queue that is null, or
 in which a fault was found, has no room.

 # Safety
 `packets` points to `count` packets; `fates` is null or points to `count` bytes.
 */
size_t txweir_submit(struct txweir *queue,
                     uint64_t now_ns,
                     const struct txweir_packet *packets,
                     size_t count,
                     uint8_t *fates);

/*
 Takes up to `most` packets that may leave now, in their order. Returns their number; `next` is
 null, or gets the time of the next call.

 A fault ends the call: the result is the number of packets before it. For a queue that is null,
 or in which a fault was found, `next` is TXWEIR_IDLE, as where `packets` is null.

 # Safety
 `packets` points to room for `most` packets; `next` is null or points to one.
 */
size_t txweir_pull(struct txweir *queue,
                   uint64_t now_ns,
                   struct txweir_packet *packets,
                   size_t most,
                   struct txweir_next *next);

/*
 Tells the byte limit that the device has finished packets that a pull gave: their number, and
 the sum of their bytes, with the headers that the segments of super-packets repeat.
 */
int32_t txweir_completed(struct txweir *queue, uint64_t now_ns, uint32_t packets, uint32_t bytes);

/*
 True once after TXWEIR_FULL, when there is room again.
 */
bool txweir_take_wake(struct txweir *queue);

/*
 Fills in the facts about a packet that an Ethernet frame's headers tell: flow, priority,
 protocol, tos, flags; and its length. All others stay as they are. `length` is the length of the
 whole frame, of which the first `given` bytes are at `bytes`; 128 are enough for most headers.

 # Safety
 `bytes` points to `given` bytes, `packet` to a packet.
 */
int32_t txweir_read(struct txweir *queue,
                    const uint8_t *bytes,
                    size_t given,
                    uint32_t length,
                    struct txweir_packet *packet);

/*
 Returns a flow hash for a number of a flow: a connection's, a subscriber's, an index.
 */
uint32_t txweir_flow(uint64_t number);

/*
 Reads the counters.

 # Safety
 `stats` points to room for them.
 */
int32_t txweir_get_stats(struct txweir *queue, struct txweir_stats *stats);

/*
 Writes the qdiscs with their counters as `tc -s qdisc show` prints them, or as `tc -s -j`.
 Returns the bytes of the whole text, without the final zero, as snprintf does.

 # Safety
 `text` is null or points to `room` bytes.
 */
size_t txweir_show(struct txweir *queue, bool json, char *text, size_t room);

/*
 Writes the name of a reason of drops, such as `overlimit`. Returns its bytes, as snprintf does;
 0 for a number that is none.

 # Safety
 `text` is null or points to `room` bytes.
 */
size_t txweir_reason(uint8_t reason, char *text, size_t room);

/*
 Returns the version: `major.minor.patch`.
 */
const char *txweir_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TXWEIR_H */
