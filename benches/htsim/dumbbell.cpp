// The dumbbell of benches/dumbbell.toml under htsim: long NewReno flows through one bottleneck.
//
//   dumbbell --flows=N [--seconds=30] [--seed=1] [--timer-ms=10]

#include "common.h"

int
main(int argc, char* argv[])
{
    const int flows = static_cast<int>(bench::Option(argc, argv, "flows", 10));
    const double seconds = bench::Option(argc, argv, "seconds", 30);
    srand(static_cast<unsigned>(bench::Option(argc, argv, "seed", 1)));
    // htsim reports each timeout on standard output, which would count.
    std::cout.rdbuf(nullptr);

    // 1448 bytes of data and 52 of header, as in the others; an ACK for every packet, which htsim's receivers always send.
    Packet::set_packet_size(1500);
    EventList events;
    events.setEndtime(timeFromSec(seconds));
    TcpRtxTimerScanner timers(timeFromMs(bench::Option(argc, argv, "timer-ms", 10)), events);
    const auto forward = bench::MakeLink(events, 100, 10, 250);
    const auto back = bench::MakeLink(events, 100, 10, 250);
    std::vector<TcpSrc*> sources;
    for (int i = 0; i < flows; ++i)
    {
        auto* source = new TcpSrc(nullptr, nullptr, events);
        auto* sink = new TcpSink();
        auto* out = new Route();
        auto* in = new Route();
        const auto access = [&] { return bench::MakeLink(events, 1000, 1, 1000); };
        access().AppendTo(*out);
        forward.AppendTo(*out);
        access().AppendTo(*out);
        out->push_back(sink);
        access().AppendTo(*in);
        back.AppendTo(*in);
        access().AppendTo(*in);
        in->push_back(source);
        timers.registerTcp(*source);
        source->connect(*out, *in, *sink, timeFromSec(drand()));
        sources.push_back(source);
    }
    const auto [wall, count] = bench::Run();
    const auto dropped = static_cast<uint64_t>(forward.queue->num_drops());
    const auto sent = bench::Sent(sources);
    const auto carried = sent - dropped;
    // Every packet crosses the access link. What the bottleneck carries crosses two more, and its ACK three.
    const auto hops = sent + 5 * carried;
    std::printf("{\"wall_s\": %.6f, \"hops\": %lu, \"events\": %lu, \"peak_kb\": %ld, \"dropped\": %lu, "
                "\"utilization\": %.4f}\n",
                wall,
                hops,
                count,
                bench::PeakKb(),
                dropped,
                carried * Packet::data_packet_size() * 8 / (100e6 * seconds));
    std::fflush(stdout);
    // Nothing of htsim's is freed.
    std::_Exit(0);
}
