// The 100 clients of the scenario catnip-e4 (Reno over DropTail), as near as ns-3 comes with few lines. What
// differs: a client opens each connection with a handshake, so that a page takes longer and the first timeout of the
// data follows a measured round trip; connections end with FIN; the sender is NewReno; its window is not limited, but
// slow start ends at the limit of the others; a link adds two bytes of PPP.
//
//   web --pages=python/catnip/papers/catnip/reference/catnip_pages.csv [--seed=1]

#include "common.h"

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t CLIENTS = 100;
constexpr uint32_t SERVERS = 10;
constexpr uint16_t PORT = 80;
constexpr double THINK_S = 40;
constexpr size_t MAX_CONNECTIONS = 4;
/// Data of a packet of 512 bytes with headers of 20 + 20.
constexpr uint32_t SEGMENT = 472;
constexpr uint32_t IMAGES_AFTER = 2 * SEGMENT;

/// A page: the bytes of its objects, the HTML first.
using Page = std::vector<uint32_t>;

/// As many segments per object as packets of 512 bytes.
std::vector<Page>
ReadPages(const std::string& path)
{
    std::ifstream file(path);
    NS_ABORT_MSG_UNLESS(file, "cannot read " << path);
    std::vector<Page> pages;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line))
    {
        std::istringstream cells(line);
        std::string page;
        std::string index;
        std::string kind;
        std::string bytes;
        std::getline(cells, page, ',');
        std::getline(cells, index, ',');
        std::getline(cells, kind, ',');
        std::getline(cells, bytes, ',');
        pages.resize(std::stoul(page));
        pages.back().push_back((std::stoul(bytes) + 511) / 512 * SEGMENT);
    }
    return pages;
}

/// Sends to each connection what was announced for it, and closes.
class Server
{
  public:
    explicit Server(Ptr<Node> node)
        : m_node(node)
    {
        m_listener = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Server::OnConnection, this));
    }

    /// The connection from there is for a document of so many bytes.
    void Expect(InetSocketAddress from, uint32_t bytes)
    {
        m_expected[{from.GetIpv4().Get(), from.GetPort()}] = bytes;
    }

    Ptr<Node> GetNode() const
    {
        return m_node;
    }

  private:
    void OnConnection(Ptr<Socket> socket, const Address& from)
    {
        auto address = InetSocketAddress::ConvertFrom(from);
        auto expected = m_expected.find({address.GetIpv4().Get(), address.GetPort()});
        socket->Send(Create<Packet>(expected->second));
        socket->Close();
        m_expected.erase(expected);
    }

    Ptr<Node> m_node;
    Ptr<Socket> m_listener;
    std::map<std::pair<uint32_t, uint16_t>, uint32_t> m_expected;
};

/// Someone who fetches each page once, in random order, and thinks before each.
class Client
{
  public:
    Client(Ptr<Node> node, Server& server, const std::vector<Page>& pages, uint32_t& left)
        : m_node(node),
          m_server(server),
          m_pages(pages),
          m_left(left)
    {
        auto random = CreateObject<UniformRandomVariable>();
        for (size_t page = 0; page < pages.size(); ++page)
        {
            m_order.push_back(page);
            std::swap(m_order[page], m_order[random->GetInteger(0, page)]);
        }
        m_think->SetAttribute("Mean", DoubleValue(THINK_S));
        Think();
    }

    double MeanPageTime() const
    {
        return m_pageTimes / m_pages.size();
    }

  private:
    /// The client's end of a connection.
    struct Fetch
    {
        Ptr<Socket> socket;
        uint32_t received;
    };

    const Page& CurrentPage() const
    {
        return m_pages[m_order.back()];
    }

    void Think()
    {
        Simulator::Schedule(Seconds(m_think->GetValue()), &Client::Begin, this);
    }

    void Begin()
    {
        m_start = Simulator::Now();
        m_fetches.clear();
        m_complete = 0;
        OpenNext();
    }

    void OpenNext()
    {
        size_t object = m_fetches.size();
        auto socket = Socket::CreateSocket(m_node, TcpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(bench::Network::AddressOf(m_node), 0));
        Address own;
        socket->GetSockName(own);
        m_server.Expect(InetSocketAddress::ConvertFrom(own), CurrentPage()[object]);
        socket->SetRecvCallback(MakeCallback(&Client::OnData, this).Bind(object));
        m_fetches.push_back({socket, 0});
        socket->Connect(InetSocketAddress(bench::Network::AddressOf(m_server.GetNode()), PORT));
    }

    void OpenImages()
    {
        while (m_fetches.size() < CurrentPage().size() &&
               m_fetches.size() - m_complete < MAX_CONNECTIONS)
        {
            OpenNext();
        }
    }

    void OnData(size_t object, Ptr<Socket> socket)
    {
        // OpenNext() may move the fetches.
        uint32_t before = m_fetches[object].received;
        uint32_t received = before;
        while (auto packet = socket->Recv())
        {
            received += packet->GetSize();
        }
        m_fetches[object].received = received;
        if (before < CurrentPage()[object] && received == CurrentPage()[object])
        {
            m_fetches[object].socket = nullptr;
            socket->SetRecvCallback(MakeNullCallback<void, Ptr<Socket>>());
            socket->Close();
            OnComplete();
        }
        else if (object == 0 && before < IMAGES_AFTER && received >= IMAGES_AFTER)
        {
            OpenImages();
        }
    }

    void OnComplete()
    {
        ++m_complete;
        if (--m_left == 0)
        {
            Simulator::Stop(Seconds(1));
        }
        if (m_complete < CurrentPage().size())
        {
            OpenImages();
            return;
        }
        m_pageTimes += (Simulator::Now() - m_start).GetSeconds();
        m_order.pop_back();
        if (!m_order.empty())
        {
            Think();
        }
    }

    Ptr<Node> m_node;
    Server& m_server;
    const std::vector<Page>& m_pages;
    /// Objects that all clients have still to fetch.
    uint32_t& m_left;
    Ptr<ExponentialRandomVariable> m_think = CreateObject<ExponentialRandomVariable>();
    /// Pages still to fetch, the current one last.
    std::vector<size_t> m_order;
    std::vector<Fetch> m_fetches;
    size_t m_complete = 0;
    Time m_start;
    double m_pageTimes = 0;
};

} // namespace

int
main(int argc, char* argv[])
{
    std::string pagesFile;
    uint32_t seed = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("pages", "the objects of all pages, CSV", pagesFile);
    cmd.AddValue("seed", "seed", seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(300)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(100)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(6)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    // Instead of a receive window of 20 segments, with which a sender of ns-3.37 that has nothing left to send crashes.
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(20 * SEGMENT));

    auto pages = ReadPages(pagesFile);
    bench::Network network;
    auto routerC = network.AddNode();
    auto routerS = network.AddNode();
    auto bottleneck = network.Link(routerS, routerC, "1.5Mbps", "5ms", 10).Get(0);
    std::vector<Ptr<Node>> hosts;
    std::vector<std::unique_ptr<Server>> servers;
    for (uint32_t i = 0; i < SERVERS; ++i)
    {
        auto node = network.AddHost(routerS, "10Mbps", "4.6ms", 50);
        servers.push_back(std::make_unique<Server>(node));
    }
    for (uint32_t i = 0; i < CLIENTS; ++i)
    {
        hosts.push_back(network.AddHost(routerC, "10Mbps", "4.6ms", 50));
    }
    uint32_t left = 0;
    for (const auto& page : pages)
    {
        left += CLIENTS * page.size();
    }
    uint32_t connections = left;
    std::vector<std::unique_ptr<Client>> clients;
    for (uint32_t i = 0; i < CLIENTS; ++i)
    {
        auto& server = *servers[i * SERVERS / CLIENTS];
        network.FindPaths(hosts[i], server.GetNode());
        clients.push_back(std::make_unique<Client>(hosts[i], server, pages, left));
    }
    double wall = bench::Run();

    double pageTime = 0;
    for (const auto& client : clients)
    {
        pageTime += client->MeanPageTime() / CLIENTS;
    }
    double carried = network.Sent(bottleneck);
    double dropped = network.QueueOf(bottleneck)->GetTotalDroppedPackets();
    bench::Report(network,
                  wall,
                  {{"sent", carried + dropped},
                   {"dropped", dropped},
                   {"loss_pct", 100 * dropped / (carried + dropped)},
                   {"mean_page_s", pageTime},
                   {"connections", connections}});
    Simulator::Destroy();
    return 0;
}
