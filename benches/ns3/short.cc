// Short flows under ns-3, one after the other: 36 packets of 1433 B + 40 B, 10 Mbit/s, 100 ms each way, 5 % of the data
// packets lost. Unlike in the other simulators, a flow begins with a handshake, ends with FIN, and loses packets at the
// end of the link instead of its beginning.
//
//   short [--flows=1000] [--seed=1]
//
// A flow's sockets are made when it begins; to have them ready would save nothing that can be measured.

#include "common.h"

using namespace ns3;

namespace
{

constexpr uint16_t PORT = 9;
constexpr uint32_t SEGMENT = 1433;
constexpr uint32_t BYTES = 36 * SEGMENT;

/// Loses 5 % of the packets that carry data.
class DataLoss : public ErrorModel
{
  public:
    uint64_t Lost() const
    {
        return m_lost;
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        bool lost = packet->GetSize() >= SEGMENT && m_random->GetValue() < 0.05;
        m_lost += lost;
        return lost;
    }

    void DoReset() override
    {
    }

    Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
    uint64_t m_lost = 0;
};

/// Starts each flow when the one before has arrived.
class Flows
{
  public:
    Flows(Ptr<Node> server, Ptr<Node> client, uint32_t count)
        : m_server(server),
          m_client(client),
          m_count(count)
    {
        m_listener = Socket::CreateSocket(client, TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Flows::OnConnection, this));
        Simulator::Schedule(Seconds(0), &Flows::StartNext, this);
    }

    double MeanS() const
    {
        return m_seconds / m_count;
    }

  private:
    void StartNext()
    {
        if (m_started == m_count)
        {
            Simulator::Stop(Seconds(1));
            return;
        }
        auto socket = Socket::CreateSocket(m_server, TcpSocketFactory::GetTypeId());
        ++m_started;
        m_start = Simulator::Now();
        m_received = 0;
        socket->Connect(InetSocketAddress(bench::Network::AddressOf(m_client), PORT));
        socket->Send(Create<Packet>(BYTES));
        socket->Close();
    }

    void OnConnection(Ptr<Socket> socket, const Address&)
    {
        socket->SetRecvCallback(MakeCallback(&Flows::OnData, this));
    }

    void OnData(Ptr<Socket> socket)
    {
        while (auto packet = socket->Recv())
        {
            m_received += packet->GetSize();
        }
        if (m_received == BYTES)
        {
            m_received = 0;
            m_seconds += (Simulator::Now() - m_start).GetSeconds();
            socket->Close();
            StartNext();
        }
    }

    Ptr<Node> m_server;
    Ptr<Node> m_client;
    uint32_t m_count;
    Ptr<Socket> m_listener;
    uint32_t m_started = 0;
    uint32_t m_received = 0;
    Time m_start;
    double m_seconds = 0;
};

} // namespace

int
main(int argc, char* argv[])
{
    uint32_t count = 1000;
    uint32_t seed = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "flows, one after the other", count);
    cmd.AddValue("seed", "seed of the losses", seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(3)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(24 * SEGMENT));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));

    bench::Network network;
    auto server = network.AddNode();
    auto client = network.AddNode();
    auto devices = network.Link(server, client, "10Mbps", "100ms", 1000);
    auto loss = CreateObject<DataLoss>();
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(loss));
    network.FindPaths(server, client);
    Flows flows(server, client, count);
    double wall = bench::Run();

    bench::Report(network,
                  wall,
                  {{"flows", count},
                   {"sent", network.Sent(devices.Get(0))},
                   {"dropped", loss->Lost()},
                   {"mean_s", flows.MeanS()}});
    Simulator::Destroy();
    return 0;
}
