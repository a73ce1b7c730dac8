// Ten TCP streams at 1 Gbit/s through FqCoDel with byte limits, round trip 1 ms, in ns-3.
// It prints nanoseconds of the processor for a packet of the bottleneck. usage: ns3_dumbbell FLOWS
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <ctime>
#include <string>

using namespace ns3;

int
main(int argc, char** argv)
{
    const int flows = argc > 1 ? atoi(argv[1]) : 10;
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(256 << 10));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(256 << 10));
    NodeContainer routers(2);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);
    InternetStackHelper().InstallAll();

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    access.SetChannelAttribute("Delay", StringValue("1us"));
    PointToPointHelper narrow;
    narrow.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    narrow.SetChannelAttribute("Delay", StringValue("500us"));
    narrow.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));

    Ipv4AddressHelper addresses("10.255.0.0", "255.255.255.0");
    auto bottleneck = narrow.Install(routers);
    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
    control.SetQueueLimits("ns3::DynamicQueueLimits");
    auto disc = control.Install(bottleneck).Get(0);
    addresses.Assign(bottleneck);
    for (int i = 0; i < flows; i++)
    {
        auto from = access.Install(senders.Get(i), routers.Get(0));
        auto to = access.Install(routers.Get(1), receivers.Get(i));
        addresses.SetBase(("10.1." + std::to_string(i) + ".0").c_str(), "255.255.255.0");
        addresses.Assign(from);
        addresses.SetBase(("10.2." + std::to_string(i) + ".0").c_str(), "255.255.255.0");
        InetSocketAddress end(addresses.Assign(to).GetAddress(1), 5000);
        // Only the bottleneck has a queue disc.
        control.Uninstall(from);
        control.Uninstall(to);
        PacketSinkHelper("ns3::TcpSocketFactory", end).Install(receivers.Get(i)).Start(Seconds(0));
        BulkSendHelper bulk("ns3::TcpSocketFactory", end);
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(senders.Get(i)).Start(MilliSeconds(1 + i));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(MilliSeconds(200));
    Simulator::Run();
    uint32_t before = disc->GetStats().nTotalSentPackets;
    Simulator::Stop(MilliSeconds(500));
    const std::clock_t start = std::clock();
    Simulator::Run();
    const double time = (std::clock() - start) * (1e9 / CLOCKS_PER_SEC);
    uint32_t packets = disc->GetStats().nTotalSentPackets - before;
    printf("ns %.0f\npackets %u\n", time / packets, packets);
    Simulator::Destroy();
    return 0;
}
