"""The bytes of a packet from its description. `txweir lab replay` builds the same ones.

The number of a packet is in its source MAC address, 02:00 and four bytes: no scheduler looks there, super-packets keep it in
every segment, and packets without payload have it too.
"""

import struct

SENDER = "02:00:00:00:00:01"
PEER = "02:ff:00:00:00:02"
ETHERTYPE = {"ipv4": 0x0800, "ipv6": 0x86DD}
TCP_FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "C": 128}


def sequence(frame):
    """The packet's number, or None for a frame that is not ours."""
    if len(frame) < 14 or frame[6:8] != b"\x02\x00":
        return None
    return struct.unpack_from("!I", frame, 8)[0]


def network(frame):
    """Ethertype and offset behind VLAN tags."""
    at = 12
    kind = struct.unpack_from("!H", frame, at)[0]
    while kind in (0x8100, 0x88A8) and len(frame) >= at + 6:
        at += 4
        kind = struct.unpack_from("!H", frame, at)[0]
    return kind, at + 2


def ds(frame):
    """The DS byte (DSCP and ECN), None for what is not IP."""
    kind, at = network(frame)
    if kind == 0x0800:
        return frame[at + 1]
    if kind == 0x86DD:
        return (frame[at] << 4 | frame[at + 1] >> 4) & 0xFF
    return None


def total(data):
    """The Internet checksum's sum, not complemented."""
    if len(data) % 2:
        data += b"\0"
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def address(text, v6):
    if not v6:
        return bytes(int(part) for part in text.split("."))
    left, _, right = text.partition("::")
    head = [int(g, 16) for g in left.split(":") if g]
    tail = [int(g, 16) for g in right.split(":") if g]
    groups = head + [0] * (8 - len(head) - len(tail)) + tail
    return struct.pack("!8H", *groups)


def flags(text):
    value = 0
    for letter in text:
        value |= TCP_FLAGS[letter]
    return value


def build(packet, seq, size, extra):
    """Frame and virtio-net header of packet number `seq`, `size` bytes with its Ethernet header.

    `packet` is a row of the trace's packet table; `extra` has what differs per packet (`ack`, `tcp_seq`).
    """
    ethernet = bytes.fromhex(PEER.replace(":", "")) + struct.pack("!HI", 0x0200, seq)
    for tci in packet.get("vlan", []):
        ethernet += struct.pack("!HH", 0x8100, tci)
    proto = packet["proto"]
    if proto == "arp":
        body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + b"\2\0\0\0\0\1" + address(packet["src"], False)
        body += bytes(6) + address(packet["dst"], False)
        frame = ethernet + struct.pack("!H", 0x0806) + body
        return padded(frame, size), b""
    if proto == "raw":
        return padded(ethernet + struct.pack("!H", packet["ethertype"]), size), b""
    return internet(packet, ethernet, seq, size, extra)


def padded(frame, size):
    if len(frame) > size:
        raise ValueError(f"a size of {size} bytes, but the headers alone are {len(frame)}")
    return frame + bytes(size - len(frame))


def internet(packet, ethernet, seq, size, extra):
    v6 = ":" in packet["src"]
    src, dst = address(packet["src"], v6), address(packet["dst"], v6)
    ip_at = len(ethernet) + 2
    ip_header = 40 if v6 else 20
    rest = size - ip_at - ip_header
    if packet["proto"] == "tcp":
        options = bytes.fromhex(packet.get("options", "")) if "options" not in extra else bytes.fromhex(extra["options"])
        number = 6
        head = 20 + len(options)
        offset = (head // 4) << 12 | flags(packet.get("flags", "A"))
        l4 = struct.pack("!HHIIHHHH", packet["sport"], packet["dport"], extra.get("tcp_seq", 1), extra.get("ack", 1),
                         offset, packet.get("window", 65535), 0, 0) + options
        checksum_at = 16
    elif packet["proto"] == "icmp":
        number, head, checksum_at = (58 if v6 else 1), 8, 2
        l4 = struct.pack("!BBHHH", 128 if v6 else 8, 0, 0, packet["sport"], 1)
    else:
        number, head, checksum_at = 17, 8, 6
        l4 = struct.pack("!HHHH", packet["sport"], packet["dport"], rest & 0xFFFF, 0)
    if rest < head:
        raise ValueError(f"a size of {size} bytes, but the headers alone are {ip_at + ip_header + head}")
    l4 += bytes(rest - head)
    field = packet.get("dscp", 0) << 2 | packet.get("ecn", 0)
    if v6:
        first = 6 << 28 | field << 20 | packet.get("label", 0)
        ip = struct.pack("!IHBB", first, rest & 0xFFFF, number, 64) + src + dst
        pseudo = src + dst + struct.pack("!II", rest, number)
        if number == 1:
            pseudo = b""
    else:
        whole = ip_header + rest
        ip = struct.pack("!BBHHHBBH", 0x45, field, whole if whole < 65536 else 0, seq & 0xFFFF, 0x4000, 64, number, 0) + src + dst
        ip = ip[:10] + struct.pack("!H", 0xFFFF ^ total(ip)) + ip[12:]
        pseudo = b"" if number == 1 else src + dst + struct.pack("!HH", number, rest & 0xFFFF)
    gso = packet.get("gso", 0)
    if gso:
        # Of a super-packet the kernel finishes the checksum of each segment: the field holds the pseudo header's sum.
        check = total(pseudo)
    else:
        check = 0xFFFF ^ total(pseudo + l4)
    l4 = l4[:checksum_at] + struct.pack("!H", check) + l4[checksum_at + 2:]
    frame = ethernet + struct.pack("!H", 0x86DD if v6 else 0x0800) + ip + l4
    kind = 5 if number == 17 else (4 if v6 else 1)
    header = struct.pack("<BBHHHH", 1, kind, ip_at + ip_header + head, gso, ip_at + ip_header, checksum_at) if gso else b""
    return frame, header
