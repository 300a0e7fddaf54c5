// What the ns-3 programs of this benchmark share.

#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"

#include <chrono>
#include <fstream>
#include <initializer_list>
#include <iomanip>
#include <iostream>
#include <string>
#include <utility>

namespace bench
{

using namespace ns3;

/// Point-to-point links with a droptail queue at each end, and hosts that hang on routers by one.
class Network
{
  public:
    Network()
    {
        // Static and global routing search a list of all links at each hop; a nix-vector carries its path. The strong
        // model compares a packet's destination with one address of a router instead of all.
        m_stack.SetRoutingHelper(Ipv4NixVectorHelper());
        Config::SetDefault("ns3::Ipv4::WeakEsModel", BooleanValue(false));
        m_stack.SetIpv6StackInstall(false);
        m_addresses.SetBase("10.0.0.0", "255.255.255.252");
        // Without flow control there is no second queue above that of the device.
        m_pointToPoint.DisableFlowControl();
    }

    Ptr<Node> AddNode()
    {
        auto node = CreateObject<Node>();
        m_stack.Install(node);
        return node;
    }

    /// A queue of `limit` holds the packet in transmission and `limit` - 1 others. Returns the devices of both ends.
    NetDeviceContainer Link(Ptr<Node> a, Ptr<Node> b, std::string rate, std::string delay, uint32_t limit)
    {
        m_pointToPoint.SetDeviceAttribute("DataRate", StringValue(rate));
        m_pointToPoint.SetChannelAttribute("Delay", StringValue(delay));
        m_pointToPoint.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue({PACKETS, limit - 1}));
        auto devices = m_pointToPoint.Install(a, b);
        m_addresses.Assign(devices);
        m_addresses.NewNetwork();
        m_devices.Add(devices);
        return devices;
    }

    Ptr<Node> AddHost(Ptr<Node> router, std::string rate, std::string delay, uint32_t limit)
    {
        auto host = AddNode();
        Link(host, router, rate, delay, limit);
        return host;
    }

    /// Finds the paths between two hosts, so that this is not part of the event loop. The network must be complete.
    static void FindPaths(Ptr<Node> a, Ptr<Node> b)
    {
        for (auto [from, to] : {std::pair(a, b), std::pair(b, a)})
        {
            Ipv4Header header;
            header.SetDestination(AddressOf(to));
            Socket::SocketErrno error;
            auto routing = from->GetObject<Ipv4>()->GetRoutingProtocol();
            routing->RouteOutput(Create<Packet>(), header, nullptr, error);
        }
    }

    static Ptr<Queue<Packet>> QueueOf(Ptr<NetDevice> device)
    {
        return DynamicCast<PointToPointNetDevice>(device)->GetQueue();
    }

    /// Packets that a device has begun to send: each passes its queue, even if the link is free.
    static uint64_t Sent(Ptr<NetDevice> device)
    {
        auto queue = QueueOf(device);
        return queue->GetTotalReceivedPackets() - queue->GetNPackets();
    }

    /// Their bytes.
    static uint64_t SentBytes(Ptr<NetDevice> device)
    {
        auto queue = QueueOf(device);
        return queue->GetTotalReceivedBytes() - queue->GetNBytes();
    }

    /// Packets sent on all links.
    uint64_t Hops() const
    {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < m_devices.GetN(); ++i)
        {
            sum += Sent(m_devices.Get(i));
        }
        return sum;
    }

    static Ipv4Address AddressOf(Ptr<Node> host)
    {
        return host->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    }

  private:
    InternetStackHelper m_stack;
    Ipv4AddressHelper m_addresses;
    PointToPointHelper m_pointToPoint;
    NetDeviceContainer m_devices;
};

/// Runs the simulation; returns the seconds that the event loop took.
inline double
Run()
{
    auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Peak resident memory of this process.
inline long
PeakKb()
{
    std::ifstream status("/proc/self/status");
    std::string word;
    long kb = 0;
    while (status >> word)
    {
        if (word == "VmHWM:")
        {
            status >> kb;
        }
    }
    return kb;
}

/// Prints a JSON object, with what all programs tell after what is given.
inline void
Report(const Network& network, double wallS, std::initializer_list<std::pair<const char*, double>> more)
{
    std::cout << std::setprecision(12) << "{\"wall_s\": " << wallS << ", \"hops\": " << network.Hops()
              << ", \"events\": " << Simulator::GetEventCount() << ", \"peak_kb\": " << PeakKb()
              << ", \"simulated_s\": " << Simulator::Now().GetSeconds();
    for (const auto& [name, value] : more)
    {
        std::cout << ", \"" << name << "\": " << value;
    }
    std::cout << "}" << std::endl;
}

} // namespace bench
