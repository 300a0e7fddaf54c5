// The dumbbell of benches/dumbbell.toml under ns-3: long NewReno flows through one bottleneck.
//
//   dumbbell --flows=N [--seconds=30] [--seed=1]

#include "common.h"

#include "ns3/applications-module.h"

using namespace ns3;

int
main(int argc, char* argv[])
{
    uint32_t flows = 10;
    double seconds = 30;
    uint32_t seed = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "long flows", flows);
    cmd.AddValue("seconds", "simulated seconds", seconds);
    cmd.AddValue("seed", "seed of the start times", seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    // With timestamps a header has 20 + 20 + 12 bytes.
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    // More than the pipe and the queue hold together: the window is never full. A sender keeps as many packets.
    uint32_t window = flows > 10 ? 512 * 1024 : 1024 * 1024;
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));

    bench::Network network;
    auto left = network.AddNode();
    auto right = network.AddNode();
    auto bottleneck = network.Link(left, right, "100Mbps", "10ms", 250).Get(0);
    auto start = CreateObject<UniformRandomVariable>();
    constexpr uint16_t PORT = 9;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    ApplicationContainer sinks;
    NodeContainer senders;
    NodeContainer receivers;
    for (uint32_t i = 0; i < flows; ++i)
    {
        auto sender = network.AddHost(left, "1Gbps", "1ms", 1000);
        auto receiver = network.AddHost(right, "1Gbps", "1ms", 1000);
        senders.Add(sender);
        receivers.Add(receiver);
        sinks.Add(sink.Install(receiver));
        InetSocketAddress to(network.AddressOf(receiver), PORT);
        BulkSendHelper bulk("ns3::TcpSocketFactory", to);
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(sender).Start(Seconds(start->GetValue()));
    }
    for (uint32_t i = 0; i < flows; ++i)
    {
        network.FindPaths(senders.Get(i), receivers.Get(i));
    }
    Simulator::Stop(Seconds(seconds));
    double wall = bench::Run();

    double goodBytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); ++i)
    {
        goodBytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    double capacity = 100e6 / 8 * seconds;
    double dropped = network.QueueOf(bottleneck)->GetTotalDroppedPackets();
    bench::Report(network,
                  wall,
                  {{"dropped", dropped},
                   {"utilization", network.SentBytes(bottleneck) / capacity},
                   {"goodput", goodBytes / capacity}});
    Simulator::Destroy();
    return 0;
}
