// What the programs for htsim share: a network of queues and pipes, the clock around the event loop, and the report.
#pragma once

#include <clock.h>
#include <eventlist.h>
#include <network.h>
#include <pipe.h>
#include <queue.h>
#include <randomqueue.h>
#include <tcp.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace bench
{

// One direction of a link. htsim drops a packet at its queue, not on the way to it.
struct Link
{
    Queue* queue;
    Pipe* pipe;

    void
    AppendTo(Route& route) const
    {
        route.push_back(queue);
        route.push_back(pipe);
    }
};

inline Link
MakeLink(EventList& events, double mbit, double delayMs, int packets)
{
    auto* queue = new Queue(speedFromMbps(mbit), memFromPkt(packets), events, nullptr);
    return {queue, new Pipe(timeFromMs(delayMs), events)};
}

// Value of `--name=value`.
inline double
Option(int argc, char* argv[], const std::string& name, double otherwise)
{
    const std::string prefix = "--" + name + "=";
    for (int i = 1; i < argc; ++i)
    {
        if (std::strncmp(argv[i], prefix.c_str(), prefix.size()) == 0)
        {
            return std::atof(argv[i] + prefix.size());
        }
    }
    return otherwise;
}

// Runs the event loop and returns its duration in seconds, and the number of events.
inline std::pair<double, uint64_t>
Run()
{
    uint64_t events = 0;
    const auto start = std::chrono::steady_clock::now();
    while (EventList::doNextEvent())
    {
        ++events;
    }
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), events};
}

inline long
PeakKb()
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
    {
        if (line.rfind("VmHWM:", 0) == 0)
        {
            return std::atol(line.c_str() + 6);
        }
    }
    return 0;
}

// Data packets that were sent, retransmissions included.
inline uint64_t
Sent(const std::vector<TcpSrc*>& sources)
{
    uint64_t sent = 0;
    for (const auto* source : sources)
    {
        sent += source->_packets_sent / source->_mss;
    }
    return sent;
}

} // namespace bench
