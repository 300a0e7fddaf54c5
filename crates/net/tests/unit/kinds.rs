//! Tests of the properties and notations of all queues, stages, rates and kinds of jitter.

use catnip_base::{Rate, Rng, Span, Stream, Time};
use catnip_net::jitter::JitterSpec;
use catnip_net::mark::SpmParameters;
use catnip_net::queue::{BufferBounds, CustomQueues, DropTailSpec, QueueKind, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::stage::{self, CustomStages};
use catnip_net::{ArqSpec, References, WireSpec};
use std::fmt::{Debug, Display};
use std::str::FromStr;

fn read<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn same<T: FromStr<Err: Debug> + Display>(texts: &[&str]) {
    for text in texts {
        assert_eq!(&read::<T>(text).to_string(), text);
    }
}

#[test]
fn what_is_read_is_written_as_it_was() {
    same::<QueueSpec>(&[
        "drop-tail:10",
        "drop-tail:15KB",
        "drop-tail:200ms",
        "red:10",
        "red:10,min=2.5,max=7,weight=0.02,max_p=0.2,gentle=true,wait=false,mean_packet=1000",
        "catnip-good:10,victim=newest",
        "catnip-bad:10",
        "catnip-red:10,gentle=true,victim=oldest",
        "shaper:10,high=250kbit/6000B",
        "shaper:2,high=250kbit/6000B,med=110kbit/6000B",
        "scheduler:10,high=250kbit/6000B",
        "scheduler:2,high=250kbit/6000B,med=110kbit/6000B",
        "wrr:rest=1(drop-tail:15KB)",
        "wrr:af1=20(drop-tail:100),rest=80(rio:400,low=10%-40%,max_p=0.2)",
        "wrr:af1=1(red:9),af2=2(catnip-red:9),af3=3(shaper:9,high=1Mbit/9B),af4=1000000(drop-tail:2),rest=3(rio:9)",
        "catnip-middle:10,victim=oldest",
        "drop-head:10",
        "drop-head:15KB",
        "codel:10",
        "codel:15KB,target=1ms,interval=20ms,ecn=false",
        "fq-codel:10240",
        "fq-codel:4MB,target=1ms,interval=20ms,ecn=false,flows=16,quantum=300B",
        "linux-codel:1000",
        "linux-codel:15KB,target=1ms,interval=20ms,ecn=true",
        "linux-fq-codel:10240",
        "linux-fq-codel:4MB,target=1ms,interval=20ms,ecn=false,flows=16,quantum=300B",
        "pie:10",
        "pie:15KB,target=5ms,update=4ms,burst=0s,alpha=0.25,beta=2.5,even=false,ecn=false",
        "linux-pie:1000",
        "linux-pie:15KB,target=5ms,update=4ms,alpha=0.25,beta=2,ecn=true",
        "linux-red:64KB",
        "linux-red:64KB,min=5KB,max=10000B,burst=20,max_p=0.1,mean_packet=500,ecn=true,hard=true",
        "dual-pi2:10",
        "dual-pi2:15KB,target=5ms,update=4ms,alpha=0.25,beta=2.5,coupling=1,min=0s,range=1ms,classic=0.25",
        "rio:10",
        "rio:15KB,weight=0.25",
        "red:15KB",
        "red:15KB,min=1KB,max=10000B,gentle=true",
        "catnip-red:15KB,max=10000B,victim=oldest",
        "shaper:15KB,high=250kbit/6000B",
        "scheduler:15KB,high=250kbit/6000B",
        "rio:10,low=10%-40%,med=25%-60%,high=60.5%-99%,weight=0.25,max_p=0.2",
    ]);
    same::<JitterSpec>(&[
        "uniform:5ms",
        "normal:2ms",
        "exponential:3ms",
        "samples:rtt.txt",
        "table:pareto.dist,sigma=2ms",
    ]);
    same::<SpmParameters>(&["spm", "spm:handshake=low", "spm:trailing=0", "spm:leading=1,small_window=0"]);
    assert_eq!(DropTailSpec::packets(7).map(QueueSpec::DropTail), Some(read("drop-tail:7")));
    same::<ArqSpec>(&["arq:loss=0.05,retry=8ms", "arq:loss=0.1,retry=0s,tries=2,in_order=true"]);
    for text in [
        "none",
        "bernoulli:0.05",
        "priority:high=0.01,low=0.1",
        "priority:high=0.01,low=0.1,med=0.05",
        "gilbert-elliott:to_bad=0.02,to_good=0.3,loss_good=0.01,loss_bad=0.5",
        "gilbert-elliott:to_bad=0.01,to_good=0.3,loss_bad=1",
        "packets:1,3 | bernoulli:0.5",
        "policer:high=250kbit/6000B",
        "policer:high=250kbit/6000B,med=500kbit/3KB,action=drop",
        "tb-marker:high=1Mbit/1500B | policer:high=1bit/1B,med=2Gbit/1MB",
        "outage:every=30s,for=2s | outage:every=30s,for=2s,first=0s | outage:mean_up=30s,mean_down=2s",
        "reorder:0.01 | reorder:0.01,by=2ms | reorder:0.01,by=3 | reorder:0.01,by=3,within=5ms",
        "late:20,22 | late:20,22,by=5ms | marks:3",
        "duplicate:0.01",
        "corrupt:0.01",
        "four-state:p13=0.01",
        "four-state:p13=0.01,p31=0.2,p32=0.1,p23=0.5,p14=0.02",
    ] {
        assert_eq!(
            stage::write(&stage::read(text, &CustomStages::default(), &|_| Err(String::new())).unwrap()),
            text
        );
    }
}

#[test]
fn a_rate_is_constant_recorded_or_unlimited() {
    let none = |_: &str| Err("no file".to_string());
    for (text, mean) in [("1.5Mbit", Rate::from_bits_per_second(1_500_000)), ("unlimited", None)] {
        let rate = RateSpec::read(text, none).unwrap();
        assert_eq!((rate.to_string().as_str(), rate.mean()), (text, mean));
    }
    for (text, named) in [
        ("fast", "trace:FILE or unlimited"),
        ("steps:5s=1Mbit", "10s=1Mbit,20s=5Mbit"),
        ("trace: ", "a rate such as"),
        ("trace:x", "no file"),
    ] {
        let error = RateSpec::read(text, none).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    // mahimahi: 1504 bytes may leave in each of these milliseconds, repeatedly.
    let trace = RateSpec::read("trace:x", |_| Ok("1\n2\n".into())).unwrap();
    assert_eq!((trace.to_string(), trace.mean()), ("trace:x".into(), Rate::from_bits_per_second(12_032_000)));
}

#[test]
fn delays_are_drawn_from_a_file_as_they_are_there() {
    let drawn = |text: &str, lines: &str| {
        let spec =
            JitterSpec::read(text, |file| if file == "f" { Ok(lines.into()) } else { Err("no file".into()) });
        let mut jitter = spec.map_err(|error| error.to_string())?.build(Rng::new(1, Stream::Jitter(0)));
        let base = Span::from_millis(100);
        // Packets are so far apart that no packet is delayed by the previous packet.
        let one = |n: u64| {
            let left = Time::ZERO + Span::from_secs(n);
            jitter.arrival(left, base).since(left).as_nanos() / 1000
        };
        Ok::<Vec<u64>, String>((0..9000).map(one).collect())
    };
    let shares =
        |drawn: &[u64], of: u64| drawn.iter().filter(|&&us| us == of).count() as f64 / drawn.len() as f64;
    // Numbers without a unit are in ms, and a value that is listed twice occurs twice as often.
    let samples = drawn("samples:f", "# measured\n1\n2.5ms\n1\n").unwrap();
    assert!(
        (shares(&samples, 101_000) - 2.0 / 3.0).abs() < 0.02
            && shares(&samples, 101_000) + shares(&samples, 102_500) == 1.0
    );
    // tc-netem(8): values are deviations in units of 1/8192 of sigma.
    let table = drawn("table:f,sigma=8ms", "-8192 4096\n 16384 # three\n").unwrap();
    let all: f64 = [92_000, 104_000, 116_000].iter().map(|&us| shares(&table, us)).sum();
    assert!(all == 1.0 && (shares(&table, 116_000) - 1.0 / 3.0).abs() < 0.02);
    for (text, lines, named) in [
        ("samples:g", "1", "no file"),
        ("samples:f", "", "at least one delay"),
        ("samples:f", "1\n-2\n", "line 2"),
        ("table:f,sigma=1ms", "99999", "line 1"),
        ("table:f", "1", "sigma=TIME"),
        ("samples:f,sigma=1ms", "1", "sigma=TIME"),
    ] {
        let error = drawn(text, lines).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_queue_says_how_much_it_holds_and_whether_packets_count() {
    let exactly = |n| BufferBounds { guaranteed: n, max: Some(n) };
    for (text, holds, counts) in [
        ("drop-tail:10", exactly(10), true),
        ("drop-tail:15KB", BufferBounds::default(), false),
        ("drop-tail:200ms", BufferBounds::default(), false),
        ("catnip-good:10", exactly(10), true),
        ("catnip-bad:10", exactly(10), true),
        ("catnip-middle:10", exactly(10), true),
        // RED may drop packets long before the limit. In addition to ten waiting packets, an eleventh packet is in transmission.
        ("red:10", BufferBounds { guaranteed: 0, max: Some(11) }, true),
        ("catnip-red:10", BufferBounds { guaranteed: 0, max: Some(11) }, true),
        ("rio:10", BufferBounds { guaranteed: 0, max: Some(11) }, true),
        // All packets may be of one class, and only one packet of all classes is in transmission.
        (
            "wrr:af1=1(drop-tail:20),rest=1(drop-tail:10)",
            BufferBounds { guaranteed: 10, max: Some(29) },
            true,
        ),
        ("wrr:af1=1(drop-tail:20),rest=1(drop-tail:10KB)", BufferBounds::default(), true),
        ("wrr:rest=1(drop-tail:10KB)", BufferBounds::default(), false),
        ("red:10KB", BufferBounds::default(), false),
        ("catnip-red:10KB", BufferBounds::default(), false),
        ("rio:10KB", BufferBounds::default(), false),
        ("shaper:10KB,high=250kbit/6000B", BufferBounds::default(), false),
        ("drop-head:10", BufferBounds { guaranteed: 10, max: Some(10) }, true),
        ("drop-head:10KB", BufferBounds::default(), false),
        ("codel:10", BufferBounds { guaranteed: 0, max: Some(10) }, true),
        ("fq-codel:10KB", BufferBounds::default(), false),
        ("linux-codel", BufferBounds { guaranteed: 0, max: Some(1000) }, true),
        ("linux-fq-codel", BufferBounds { guaranteed: 0, max: Some(10240) }, true),
        ("linux-fq-codel:10KB", BufferBounds::default(), false),
        ("pie:10", BufferBounds { guaranteed: 0, max: Some(10) }, true),
        ("pie:10KB", BufferBounds::default(), false),
        ("linux-pie", BufferBounds { guaranteed: 0, max: Some(1000) }, true),
        ("linux-red:64KB", BufferBounds::default(), true),
        ("dual-pi2:10", BufferBounds { guaranteed: 0, max: Some(10) }, true),
        ("dual-pi2:10KB", BufferBounds::default(), false),
        ("shaper:10,high=250kbit/6000B", BufferBounds { guaranteed: 0, max: Some(10) }, true),
        ("scheduler:10,high=250kbit/6000B", BufferBounds { guaranteed: 0, max: Some(10) }, true),
    ] {
        let queue = read::<QueueSpec>(text);
        assert_eq!((queue.buffer_bounds(), queue.counts_packets()), (holds, counts), "{text}");
        assert_eq!(queue.is_work_conserving(), !text.starts_with('s'), "{text}");
    }
}

#[test]
fn stages_in_a_row_take_what_each_leaves() {
    for (text, high, low) in [
        ("none", 0.0, 0.0),
        ("bernoulli:0.25", 0.25, 0.25),
        ("bernoulli:0.5 | bernoulli:0.5", 0.75, 0.75),
        ("bernoulli:0.5 | priority:high=0.5,low=0.25", 0.75, 0.625),
    ] {
        let loss =
            stage::loss_of(&stage::read(text, &CustomStages::default(), &|_| Err(String::new())).unwrap());
        assert_eq!(loss.map(|loss| [loss[0], loss[1]]), Some([high, low]), "{text}");
    }
    // These stages do not drop each packet independently, so they have no loss probability.
    for text in [
        "gilbert-elliott:to_bad=1%,to_good=30%,loss_bad=50%",
        "bernoulli:0.5 | packets:1",
        "tb-marker:high=1Mbit/1500B",
    ] {
        assert_eq!(
            stage::loss_of(&stage::read(text, &CustomStages::default(), &|_| Err(String::new())).unwrap()),
            None,
            "{text}"
        );
    }
}

#[test]
fn a_jitter_fits_into_its_delay() {
    let (queues, stages) = (CustomQueues::default(), CustomStages::default());
    let with = References { queues: &queues, stages: &stages, open: &|_| Err(String::new()) };
    let wire = |jitter: &'static str, delay: &'static str| {
        let value_of = move |key| match key {
            "rate" => Some("unlimited"),
            "queue" => Some("drop-tail:10"),
            "delay" => Some(delay),
            "jitter" => Some(jitter),
            _ => None,
        };
        WireSpec::read(value_of, &with).map_err(|(key, _)| key)
    };
    // The least delay is the bound for `uniform`, three standard deviations for `normal`, which one packet in a thousand exceeds, and zero
    // for `exponential`.
    for (jitter, min_ms) in [("uniform:5ms", 5), ("normal:2ms", 6), ("exponential:3ms", 0)] {
        assert_eq!(read::<JitterSpec>(jitter).min_delay(), Span::from_millis(min_ms));
    }
    for (jitter, delay) in [("uniform:5ms", "4999us"), ("normal:2ms", "5ms")] {
        assert_eq!(wire(jitter, delay).unwrap_err(), "jitter", "{jitter} around {delay}");
    }
    for (jitter, delay) in
        [("uniform:5ms", "5ms"), ("normal:2ms", "6ms"), ("exponential:3ms", "0ms"), ("none", "0ms")]
    {
        assert!(wire(jitter, delay).is_ok(), "{jitter} around {delay}");
    }
}
