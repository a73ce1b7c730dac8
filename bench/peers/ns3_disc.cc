// A queue disc of ns-3 called directly, without a device and without events.
// usage: ns3_disc FqCoDel|Fifo|PfifoFast|Prio|Tbf FLOWS STANDING
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <ctime>
#include <vector>

using namespace ns3;

namespace
{
constexpr long kTimed = 300000;
constexpr int kBurst = 32;

Ptr<QueueDisc>
Make(const std::string& kind, int flows, int standing)
{
    QueueSizeValue room(QueueSize(QueueSizeUnit::PACKETS, standing + 1024));
    ObjectFactory factory("ns3::" + kind + "QueueDisc");
    if (kind == "FqCoDel")
    {
        factory.Set("Flows", UintegerValue(flows));
    }
    else if (kind == "Tbf")
    {
        factory.Set("Rate", StringValue("100Gbps"), "Burst", UintegerValue(4000000000U));
    }
    if (kind != "Prio")
    {
        factory.Set("MaxSize", room);
    }
    auto disc = factory.Create<QueueDisc>();
    for (int i = 0; kind == "Prio" && i < 3; i++)
    {
        auto band = CreateObject<QueueDiscClass>();
        band->SetQueueDisc(CreateObjectWithAttributes<FifoQueueDisc>("MaxSize", room));
        disc->AddQueueDiscClass(band);
    }
    disc->Initialize();
    if (auto fq = DynamicCast<FqCoDelQueueDisc>(disc))
    {
        fq->SetQuantum(1514);
    }
    return disc;
}

Ptr<QueueDiscItem>
Item(int flow)
{
    Ipv4Header ip;
    ip.SetSource(Ipv4Address(0x0a000000U + flow));
    ip.SetDestination(Ipv4Address("10.1.0.1"));
    ip.SetProtocol(17);
    ip.SetPayloadSize(44);
    auto packet = Create<Packet>(36);
    UdpHeader udp;
    udp.SetSourcePort(1000 + flow % 60000);
    udp.SetDestinationPort(53);
    packet->AddHeader(udp);
    SocketPriorityTag tag;
    tag.SetPriority(flow % 8);
    packet->AddPacketTag(tag);
    return Create<Ipv4QueueDiscItem>(packet, Address(), 0x0800, ip);
}
} // namespace

int
main(int argc, char** argv)
{
    if (argc < 4)
    {
        return 2;
    }
    const int flows = atoi(argv[2]);
    const int standing = atoi(argv[3]);
    auto disc = Make(argv[1], flows, standing);
    for (int i = 0; i < standing; i++)
    {
        disc->Enqueue(Item(i % flows));
    }
    std::vector<Ptr<QueueDiscItem>> burst;
    for (int i = 0; i < kBurst; i++)
    {
        burst.push_back(Item(i % flows));
    }
    const std::clock_t start = std::clock();
    for (long done = 0; done < kTimed; done += kBurst)
    {
        for (auto& item : burst)
        {
            disc->Enqueue(item);
        }
        for (auto& item : burst)
        {
            item = disc->Dequeue();
            NS_ABORT_IF(!item);
        }
    }
    const double time = (std::clock() - start) * (1e9 / CLOCKS_PER_SEC);
    printf("ns %.1f\n", time / kTimed);
    return 0;
}
