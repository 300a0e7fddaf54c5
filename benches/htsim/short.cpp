// The short flows of benches/short.toml under htsim: 36 packets at 5 % loss, one flow after the other.
//
//   short [--flows=1000] [--seed=1] [--timer-ms=100]

#include "common.h"

namespace
{

constexpr uint64_t PACKETS = 36;

// Flow that starts the next one when its data is acknowledged.
class Flow : public TcpSrc
{
  public:
    Flow(EventList& events)
        : TcpSrc(nullptr, nullptr, events)
    {
        // htsim sends one packet beyond the size of a flow.
        _flow_size = (PACKETS - 1) * _mss;
        _ssthresh = 0xffffffff;
    }

    void
    receivePacket(Packet& packet) override
    {
        TcpSrc::receivePacket(packet);
        if (next && _last_acked >= PACKETS * _mss)
        {
            Flow* following = next;
            next = nullptr;
            eventlist().sourceIsPending(*following, eventlist().now());
            *current = following;
        }
    }

    Flow* next = nullptr;
    Flow** current = nullptr;
};

// Scan of the retransmission timer of the flow that is under way. htsim's own scanner has no way to forget a flow.
class Scanner : public EventSource
{
  public:
    Scanner(simtime_picosec period, EventList& events)
        : EventSource(events, "scanner"),
          m_period(period)
    {
        events.sourceIsPendingRel(*this, period);
    }

    void
    doNextEvent() override
    {
        current->rtx_timer_hook(eventlist().now(), m_period);
        if (current->next || current->_last_acked < PACKETS * current->_mss)
        {
            eventlist().sourceIsPendingRel(*this, m_period);
        }
    }

    Flow* current = nullptr;

  private:
    simtime_picosec m_period;
};

} // namespace

int
main(int argc, char* argv[])
{
    const int flows = static_cast<int>(bench::Option(argc, argv, "flows", 1000));
    srand(static_cast<unsigned>(bench::Option(argc, argv, "seed", 1)));
    // htsim reports each loss on standard output, which would count.
    std::cout.rdbuf(nullptr);

    Packet::set_packet_size(1000);
    EventList events;
    events.setEndtime(timeFromSec(1e6));
    Scanner scanner(timeFromMs(bench::Option(argc, argv, "timer-ms", 100)), events);
    std::vector<TcpSrc*> sources;
    std::vector<TcpSink*> sinks;
    Flow* before = nullptr;
    for (int i = 0; i < flows; ++i)
    {
        auto* flow = new Flow(events);
        auto* sink = new TcpSink();
        auto* out = new Route();
        auto* in = new Route();
        auto* queue = new RandomQueue(speedFromMbps(10.0), memFromPkt(1000), events, nullptr, memFromPkt(0));
        queue->set_packet_loss_rate(0.05);
        out->push_back(queue);
        out->push_back(new Pipe(timeFromMs(100.0), events));
        out->push_back(sink);
        bench::MakeLink(events, 10, 100, 1000).AppendTo(*in);
        in->push_back(flow);
        flow->current = &scanner.current;
        if (before)
        {
            flow->connect(*out, *in, *sink, timeFromSec(2e6));
            before->next = flow;
        }
        else
        {
            flow->connect(*out, *in, *sink, 0);
            scanner.current = flow;
        }
        before = flow;
        sources.push_back(flow);
        sinks.push_back(sink);
    }
    const auto [wall, count] = bench::Run();
    uint64_t done = 0;
    for (const auto* source : sources)
    {
        done += source->_last_acked >= PACKETS * source->_mss;
    }
    // A lossy queue does not count what it loses.
    uint64_t received = 0;
    for (const auto* sink : sinks)
    {
        received += sink->_packets / Packet::data_packet_size();
    }
    // A packet that arrives crosses the link, and so does its ACK.
    std::printf("{\"wall_s\": %.6f, \"hops\": %lu, \"events\": %lu, \"peak_kb\": %ld, \"dropped\": %lu}\n",
                wall,
                2 * received,
                count,
                bench::PeakKb(),
                bench::Sent(sources) - received);
    std::fflush(stdout);
    // Nothing of htsim's is freed.
    std::_Exit(done == static_cast<uint64_t>(flows) ? 0 : 1);
}
