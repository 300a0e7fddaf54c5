// Long transfers through one bottleneck under ns-3, whose queue discipline is what is looked at.
//
//   dumbbell --queue=codel|fq-codel|pie|red-step --tcp=reno|linux-reno|rfc6675|dctcp|dctcp-once [--flows=8] [--rate=20] [--delay=30]
//     [--seconds=70] [--from=10] [--seed=1] [--log=FILE]
//
// Prints goodput of all transfers in Mbit/s, the mean sojourn time in the discipline in ms, and the shares of packets that it has dropped
// and marked, in percent, of what happens from `from` seconds on.
//
// The file has a row for all that happens at the discipline: what, nanoseconds since the row before, transfer in order of appearance, and
// bytes of an arrival unless they are 1500. What: a, a packet is admitted; m, the same, marked; o, one comes out; x, one comes out and is
// dropped; e, the device asks for one while there is none. Arrivals that are turned away have no row: there are none here but with PIE.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <utility>

using namespace ns3;

namespace
{

/// RFC 5681, section 3.1: a window grows by a segment at most for each ACK. ns-3's own counts all that the ACK at the end of a recovery
/// acknowledges, which opens the window by some segments at once.
class PerAck : public TcpLinuxReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("PerAck").SetParent<TcpLinuxReno>().AddConstructor<PerAck>();
        return id;
    }

    void IncreaseWindow(Ptr<TcpSocketState> state, uint32_t segments) override
    {
        TcpLinuxReno::IncreaseWindow(state, std::min<uint32_t>(segments, 1));
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<PerAck>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(PerAck);

/// RFC 5681, equations 2 and 3: each ACK of new data opens the window by a segment in slow start, and then by a segment's share of the
/// window. ns-3's own adds a whole segment once as many ACKs as the window has segments have come, and counts on over a reduction.
class Shares : public TcpLinuxReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Shares").SetParent<TcpLinuxReno>().AddConstructor<Shares>();
        return id;
    }

    void IncreaseWindow(Ptr<TcpSocketState> state, uint32_t segments) override
    {
        if (segments == 0)
        {
            return;
        }
        uint64_t window = state->m_cWnd;
        uint64_t segment = state->m_segmentSize;
        window += window < state->m_ssThresh ? segment : std::max<uint64_t>(segment * segment / window, 1);
        state->m_cWnd = static_cast<uint32_t>(window);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Shares>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(Shares);

/// RFC 6675, section 5: the window is ssthresh from the ACK that begins a recovery to the one that ends it.
class Constant : public TcpRecoveryOps
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Constant").SetParent<TcpRecoveryOps>().AddConstructor<Constant>();
        return id;
    }

    std::string GetName() const override
    {
        return "Constant";
    }

    void EnterRecovery(Ptr<TcpSocketState> state, uint32_t, uint32_t, uint32_t) override
    {
        state->m_cWnd = state->m_ssThresh.Get();
    }

    void DoRecovery(Ptr<TcpSocketState>, uint32_t) override
    {
    }

    void ExitRecovery(Ptr<TcpSocketState> state) override
    {
        state->m_cWnd = state->m_ssThresh.Get();
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<Constant>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(Constant);

/// Proportional rate reduction (RFC 9937) in which the ACK that begins a reduction counts once: ns-3 calls DoRecovery for that one, too,
/// and its own PRR has counted it before. All ACKs are safe (SafeACK), which is so as long as nothing is lost. Less than a segment cannot
/// go and is nothing, so that the first ACK lets a segment go.
class Once : public TcpRecoveryOps
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Once").SetParent<TcpRecoveryOps>().AddConstructor<Once>();
        return id;
    }

    std::string GetName() const override
    {
        return "Once";
    }

    void EnterRecovery(Ptr<TcpSocketState>, uint32_t, uint32_t flight, uint32_t newlyDelivered) override
    {
        delivered = 0;
        out = 0;
        flightAtStart = static_cast<int64_t>(flight) + newlyDelivered;
    }

    void DoRecovery(Ptr<TcpSocketState> state, uint32_t newlyDelivered) override
    {
        delivered += newlyDelivered;
        int64_t pipe = state->m_bytesInFlight.Get();
        int64_t target = state->m_ssThresh.Get();
        int64_t mayGo = 0;
        if (pipe > target)
        {
            // Rounded up.
            mayGo = (delivered * target + flightAtStart - 1) / flightAtStart - out;
        }
        else
        {
            int64_t limit = std::max<int64_t>(delivered - out, newlyDelivered) + state->m_segmentSize;
            mayGo = std::min(target - pipe, limit);
        }
        int64_t least = out == 0 ? state->m_segmentSize : 0;
        state->m_cWnd = static_cast<uint32_t>(pipe + std::max(mayGo, least));
    }

    void ExitRecovery(Ptr<TcpSocketState> state) override
    {
        state->m_cWnd = state->m_ssThresh.Get();
    }

    void UpdateBytesSent(uint32_t bytes) override
    {
        out += bytes;
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<Once>(this);
    }

  private:
    int64_t delivered{0};
    int64_t out{0};
    int64_t flightAtStart{1};
};

NS_OBJECT_ENSURE_REGISTERED(Once);

/// What makes up a sender.
struct Sender
{
    TypeId control;
    TypeId recovery;
    bool marks{false};
};

Sender
SenderOf(const std::string& tcp)
{
    auto usual = TcpPrrRecovery::GetTypeId();
    std::map<std::string, Sender> senders{
        {"reno", {PerAck::GetTypeId(), usual}},
        {"linux-reno", {TcpLinuxReno::GetTypeId(), usual}},
        {"rfc6675", {Shares::GetTypeId(), Constant::GetTypeId()}},
        {"dctcp", {TcpDctcp::GetTypeId(), usual, true}},
        {"dctcp-once", {TcpDctcp::GetTypeId(), Once::GetTypeId(), true}},
    };
    return senders.at(tcp);
}

struct Counters
{
    double received{0};
    double dropped{0};
    double marked{0};
    double bytes{0};
};

double sojournSum = 0;
double sojourns = 0;
double countFrom = 0;

void
OnSojourn(Time waited)
{
    if (Simulator::Now().GetSeconds() >= countFrom)
    {
        sojournSum += waited.GetSeconds();
        ++sojourns;
    }
}

/// Writes what happens at the discipline.
class Log
{
  public:
    void Open(const std::string& name, Ptr<QueueDisc> queue, Ptr<NetDevice> device)
    {
        file.open(name);
        file << "event,gap_ns,flow,bytes\n";
        discipline = queue;
        queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&Log::OnEnqueue, this));
        queue->TraceConnectWithoutContext("Dequeue", MakeCallback(&Log::OnDequeue, this));
        queue->TraceConnectWithoutContext("DropAfterDequeue", MakeCallback(&Log::OnDrop, this));
        auto behind = DynamicCast<PointToPointNetDevice>(device)->GetQueue();
        behind->TraceConnectWithoutContext("Dequeue", MakeCallback(&Log::OnRoom, this));
    }

    /// Writes the last packet that came out, too.
    void Close()
    {
        Flush('o');
        file.close();
    }

  private:
    void OnEnqueue(Ptr<const QueueDiscItem> item)
    {
        Flush('o');
        auto marked = DynamicCast<const Ipv4QueueDiscItem>(item)->GetHeader().GetEcn() == Ipv4Header::ECN_CE;
        Write(marked ? 'm' : 'a', item, Simulator::Now().GetNanoSeconds());
    }

    /// Whether it goes on is known later.
    void OnDequeue(Ptr<const QueueDiscItem> item)
    {
        Flush('o');
        out = item;
        outAt = Simulator::Now().GetNanoSeconds();
    }

    void OnDrop(Ptr<const QueueDiscItem>, const char*)
    {
        Flush('x');
    }

    void OnRoom(Ptr<const Packet>)
    {
        Flush('o');
        if (discipline->GetNPackets() == 0)
        {
            file << "e," << Gap(Simulator::Now().GetNanoSeconds()) << ",,\n";
        }
    }

    void Flush(char what)
    {
        if (auto item = std::exchange(out, nullptr))
        {
            Write(what, item, outAt);
        }
    }

    void Write(char what, Ptr<const QueueDiscItem> item, int64_t at)
    {
        auto source = DynamicCast<const Ipv4QueueDiscItem>(item)->GetHeader().GetSource().Get();
        auto flow = flows.emplace(source, flows.size()).first->second;
        file << what << ',' << Gap(at) << ',' << flow << ',';
        // One that came out has the header of the link by now.
        if ((what == 'a' || what == 'm') && item->GetSize() != 1500)
        {
            file << item->GetSize();
        }
        file << '\n';
    }

    int64_t Gap(int64_t at)
    {
        return at - std::exchange(last, at);
    }

    std::ofstream file;
    Ptr<QueueDisc> discipline;
    /// It came out at `outAt`, and is yet to be written.
    Ptr<const QueueDiscItem> out;
    int64_t outAt{0};
    std::map<uint32_t, size_t> flows;
    int64_t last{0};
};

Counters
Read(Ptr<QueueDisc> queue, const ApplicationContainer& sinks)
{
    Counters counters;
    const auto& stats = queue->GetStats();
    counters.received = stats.nTotalReceivedPackets;
    counters.dropped = stats.nTotalDroppedPackets;
    counters.marked = stats.nTotalMarkedPackets;
    for (uint32_t i = 0; i < sinks.GetN(); ++i)
    {
        counters.bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    return counters;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string queue = "codel";
    std::string tcp = "reno";
    uint32_t flows = 8;
    double rate = 20;
    double delay = 30;
    double seconds = 70;
    uint32_t seed = 1;
    std::string log;
    countFrom = 10;
    CommandLine cmd(__FILE__);
    cmd.AddValue("queue", "codel, fq-codel, pie or red-step", queue);
    cmd.AddValue("tcp", "reno, linux-reno, rfc6675, dctcp or dctcp-once", tcp);
    cmd.AddValue("flows", "long transfers", flows);
    cmd.AddValue("rate", "of the bottleneck, Mbit/s", rate);
    cmd.AddValue("delay", "one way, ms", delay);
    cmd.AddValue("seconds", "simulated seconds", seconds);
    cmd.AddValue("from", "when counting begins, s", countFrom);
    cmd.AddValue("seed", "of start times and drops", seed);
    cmd.AddValue("log", "file for all that happens at the discipline", log);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);

    auto sender = SenderOf(tcp);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(sender.control));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(sender.recovery));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", EnumValue(sender.marks ? TcpSocketState::On : TcpSocketState::Off));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));

    NodeContainer left(1);
    NodeContainer right(1);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);
    InternetStackHelper stack;
    stack.InstallAll();

    PointToPointHelper edge;
    edge.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    edge.SetChannelAttribute("Delay", StringValue("1ms"));
    edge.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));
    PointToPointHelper line;
    line.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate * 1e6)));
    line.SetChannelAttribute("Delay", TimeValue(MilliSeconds(delay - 2)));
    // One packet waits in the device: the discipline has all others.
    line.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    auto bottleneck = line.Install(left.Get(0), right.Get(0));

    TrafficControlHelper discipline;
    if (queue == "codel")
    {
        discipline.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", StringValue("1000p"), "UseEcn", BooleanValue(false));
    }
    else if (queue == "fq-codel")
    {
        discipline.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue("1000p"), "UseEcn", BooleanValue(false));
    }
    else if (queue == "pie")
    {
        discipline.SetRootQueueDisc("ns3::PieQueueDisc", "MaxSize", StringValue("1000p"), "UseEcn", BooleanValue(false));
    }
    else
    {
        discipline.SetRootQueueDisc("ns3::RedQueueDisc",
                                    "MaxSize", StringValue("1000p"),
                                    "MinTh", DoubleValue(20),
                                    "MaxTh", DoubleValue(21),
                                    "QW", DoubleValue(1),
                                    "LInterm", DoubleValue(1),
                                    "Gentle", BooleanValue(false),
                                    "Wait", BooleanValue(false),
                                    "UseEcn", BooleanValue(true),
                                    "UseHardDrop", BooleanValue(false),
                                    "MeanPktSize", UintegerValue(1500),
                                    "LinkBandwidth", DataRateValue(DataRate(rate * 1e6)),
                                    "LinkDelay", TimeValue(MilliSeconds(delay - 2)));
    }
    auto installed = discipline.Install(bottleneck.Get(0)).Get(0);
    installed->TraceConnectWithoutContext("SojournTime", MakeCallback(&OnSojourn));
    Log events;
    if (!log.empty())
    {
        events.Open(log, installed, bottleneck.Get(0));
    }

    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    addresses.Assign(bottleneck);
    ApplicationContainer sinks;
    auto start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < flows; ++i)
    {
        addresses.NewNetwork();
        addresses.Assign(edge.Install(senders.Get(i), left.Get(0)));
        addresses.NewNetwork();
        auto end = addresses.Assign(edge.Install(receivers.Get(i), right.Get(0)));
        constexpr uint16_t PORT = 9;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
        sinks.Add(sink.Install(receivers.Get(i)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(end.GetAddress(0), PORT));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(senders.Get(i)).Start(Seconds(start->GetValue()));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Counters before;
    Simulator::Schedule(Seconds(countFrom), [&]() { before = Read(installed, sinks); });
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    events.Close();
    auto after = Read(installed, sinks);
    double arrived = after.received - before.received;
    std::cout << (after.bytes - before.bytes) * 8 / (seconds - countFrom) / 1e6 << " " << 1e3 * sojournSum / sojourns << " "
              << 100 * (after.dropped - before.dropped) / arrived << " " << 100 * (after.marked - before.marked) / arrived
              << std::endl;
    Simulator::Destroy();
    return 0;
}
