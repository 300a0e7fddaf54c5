//! Tests of the notations of all values in scenarios: parsing the text of a value returns the same value.

use catnip_base::Distribution;
use catnip_base::notation::{Family, name};
use catnip_net::jitter::JitterSpec;
use catnip_net::mark::MarkerSpec;
use catnip_net::queue::QueueSpec;
use catnip_net::stage::StageSpec;
use catnip_net::{ArqSpec, References, WireSpec};
use catnip_tcp::EcnKind;
use catnip_tcp::control::ControlSpec;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Texts of all kinds. A letter stands in place of each number: N for a whole number, F for a fraction, T for a time, R for any positive
/// number.
const TEXTS: &[(&str, &[&str])] = &[
    (
        "queues",
        &[
            "drop-tail:N",
            "drop-tail:NB",
            "drop-tail:NKB",
            "drop-tail:T",
            "red:N",
            "red:N,min=F,max=N,weight=F,max_p=F,gentle=true,wait=false,mean_packet=N",
            "red:NKB,min=1B,max=NMB,gentle=true,ecn=true,hard=false",
            "catnip-red:NMB,max_p=F,victim=oldest",
            "shaper:NKB,high=Nkbit/NB",
            "scheduler:NB,high=Nkbit/NB",
            "rio:NMB,weight=F",
            "catnip-good:N",
            "catnip-good:NKB",
            "catnip-good:N,victim=probe",
            "catnip-bad:NB,victim=newest",
            "catnip-bad:N,victim=oldest",
            "catnip-middle:N,victim=probe",
            "catnip-red:N,min=F,weight=F,victim=newest",
            "shaper:N,high=Nkbit/NB",
            "shaper:N,med=Nbit/NKB,high=NMbit/NB",
            "scheduler:N,high=Nkbit/NB,med=Nbit/NKB",
            "wrr:rest=N(drop-tail:NKB)",
            "wrr:rest=N(red:N,weight=F,min=F),af4=N(rio:N,low=F%-1%,max_p=F),af1=N(shaper:N,high=Nbit/NB)",
            "drop-head:N",
            "drop-head:NKB",
            "codel:N",
            "codel:NKB,target=T,interval=100000min,ecn=false",
            "fq-codel:N",
            "cake:N",
            "cake:NB,rate=NMbit,rtt=30ms,tins=diffserv4,isolation=flows,overhead=18,eager=true",
            "fq-codel:NB,target=1ns,interval=T,flows=9,quantum=NB",
            "pie:N",
            "pie:NKB,target=T,update=T,burst=T,alpha=F,beta=F,even=false,ecn=false",
            "dual-pi2:N",
            "dual-pi2:NKB,target=T,update=T,alpha=F,beta=F,coupling=3,min=T,range=T,classic=20%",
            "rio:N",
            "rio:N,low=F%-1%,med=F%-3%,high=F%-100%,weight=F,max_p=F",
        ],
    ),
    (
        "losses",
        &[
            "bernoulli:F",
            "bernoulli:F%",
            "priority:high=F,low=F",
            "priority:low=F",
            "gilbert-elliott:to_bad=F%,to_good=F%,loss_bad=F%",
            "gilbert-elliott:to_bad=F,to_good=F,loss_good=F,loss_bad=1",
            "four-state:p13=F%,p31=F%",
            "four-state:p13=0,p14=F",
            "four-state:p13=F,p31=0.5,p32=0.25,p23=F",
            "packets:N,N,N",
            "policer:high=Nkbit/NB",
            "policer:high=Nkbit/NB,med=NMbit/NKB,action=drop",
            "tb-marker:med=Nkbit/NB,high=Nbit/NB",
            "outage:every=100000min,for=Nus",
            "outage:every=100000min,for=Nus,first=T",
            "outage:mean_up=Nus,mean_down=Nms",
            "reorder:F",
            "reorder:F,by=Nus",
            "reorder:F,by=N",
            "reorder:F,within=Nus,by=N",
            "late:N,N,N,by=Nus",
            "marks:N,N",
            "duplicate:F",
            "steps:F,T=0.5",
            "steps:F%",
            "trace:loss.txt,step=T,end=stop",
            "corrupt:F",
        ],
    ),
    (
        "jitters",
        &["uniform:T", "normal:T", "exponential:T", "samples:delays.txt", "table:normal.dist,sigma=T"],
    ),
    ("link layers", &["arq:loss=F,retry=T", "arq:retry=T,loss=F,tries=N,in_order=true"]),
    ("recoveries", &["tahoe", "reno", "newreno", "sack1", "sack", "rack", "newreno-rfc6582"]),
    (
        "controls",
        &[
            "reno",
            "eca",
            "eca:last-round",
            "eca:final-window",
            "eca:one-more-round",
            "cubic",
            "linux-cubic",
            "linux-cubic:slow-start=standard",
            "cubic:fast-convergence=false",
            "cubic:slow-start=hystart",
            "cubic:fast-convergence=false,slow-start=hystart++",
            "reno:slow-start=hystart++",
            "linux-cubic:slow-start=eca",
            "cubic:slow-start=eca-final-window",
            "prague:slow-start=eca-one-more-round",
            "dctcp",
            "dctcp:gain=F%,slow-start=hystart",
            "prague",
            "prague:rtt=T,after=N,slow-start=hystart",
            "bbr",
            "bbr3",
        ],
    ),
    ("pacings", &["none", "rbplw", "rate", "rate:R", "rate:burst=N", "rate:R,burst=N", "linux"]),
    ("congestion marks", &["none", "classic", "exact", "l4s"]),
    ("validations", &["none", "restart", "linux", "cwv", "newcwv", "newcwv:filter=last"]),
    (
        "markers",
        &[
            "spm",
            "spm:leading=N,trailing=N,small_window=N",
            "spm-partial",
            "spm-partial:trailing=N",
            "spm:handshake=high",
            "spm-partial:leading=N,handshake=low",
            "last-only",
            "last-only:leading=N,repairs=low",
            "spm:trailing=N,repairs=high",
            "app",
            "app:low,class=4",
            "tcp-state",
            "tcp-state:high=4,med=8",
            "tcp-state:med=all,class=2",
            "tcp-state-random",
        ],
    ),
    (
        "distributions",
        &[
            "constant:value=R",
            "uniform:minimum=F,maximum=N",
            "exponential:mean=R",
            "pareto:shape=R,minimum=R",
            "pareto:shape=R,minimum=R,maximum=R",
            "lognormal:mu=F,sigma=R",
            "lognormal:mu=F,sigma=R,maximum=R",
            "empirical:points=0/0;F/F;N/1",
        ],
    ),
];

fn read_back<F: Family + Display + PartialEq + std::fmt::Debug>(text: &str) -> Result<(), TestCaseError> {
    let read = F::read_any(text).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let written = read.to_string();
    prop_assert_eq!(F::read_any(&written), Ok(read), "{} was written as {}", text, &written);
    // The written form is canonical: reading and writing it again does not change it.
    prop_assert_eq!(F::read_any(&written).unwrap().to_string(), written);
    Ok(())
}

fn read_back_as(family: &str, text: &str) -> Result<(), TestCaseError> {
    match family {
        "queues" => read_back::<QueueSpec>(text),
        "losses" => read_back::<StageSpec>(text),
        "jitters" => read_back::<JitterSpec>(text),
        "link layers" => read_back::<ArqSpec>(text),
        "recoveries" => read_back::<RecoveryKind>(text),
        "controls" => read_back::<ControlSpec>(text),
        "pacings" => read_back::<PacingKind>(text),
        "validations" => read_back::<ValidationSpec>(text),
        "congestion marks" => read_back::<EcnKind>(text),
        "markers" => read_back::<MarkerSpec>(text),
        "distributions" => read_back::<Distribution>(text),
        other => panic!("no texts of {other}"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_the_same(
        whole in 3u32..100_000, fraction in 1e-9..0.999f64, nanos in 1u64..1 << 50, real in 1e-6..1e15f64
    ) {
        for (family, texts) in TEXTS {
            for text in *texts {
                let number = |c: char| match c {
                    'N' => whole.to_string(),
                    'F' => fraction.to_string(),
                    'T' => format!("{nanos}ns"),
                    'R' => real.to_string(),
                    other => other.into(),
                };

                let filled: String = text.chars().map(number).collect();
                read_back_as(family, &filled)?;
            }
        }
    }
}

proptest! {
    #[test]
    fn a_wire_is_read_back_as_it_was_written(
        bits in 1u64..1 << 60, jitter_ns in 1u64..1 << 40, more_ns in 0u64..1 << 40, p in 0.0..0.999f64, limit in 2u32..9999,
        stages in 0usize..3
    ) {
        let stages = |first: &str| match stages {
            0 => "none".to_string(),
            1 => first.to_string(),
            _ => format!("{first} | priority:low={p}"),
        };
        let texts = BTreeMap::from([
            ("rate", format!("{bits}bit")),
            ("delay", format!("{}ns", jitter_ns + more_ns)),
            ("jitter", format!("uniform:{jitter_ns}ns")),
            ("queue", format!("catnip-good:{limit}")),
            ("loss", stages(&format!("bernoulli:{p}"))),
            ("wire_loss", stages("packets:3,1")),
            ("conditioner", stages("tb-marker:high=1Mbit/1500B,med=3Mbit/6KB")),
            ("outage", format!("mean_up={}ns,mean_down=2s", jitter_ns + 1000)),
            ("link_layer", format!("arq:loss={p},retry={more_ns}ns,tries={limit}")),
        ]);
        let wire = read_wire(&texts)?;
        let written: BTreeMap<_, _> = wire.written().into_iter().collect();
        prop_assert_eq!(written.keys().collect::<Vec<_>>(), texts.keys().collect::<Vec<_>>(), "every key");
        prop_assert_eq!(read_wire(&written)?, wire);
    }
}

fn read_wire(texts: &BTreeMap<&'static str, String>) -> Result<WireSpec, TestCaseError> {
    let (queues, stages) = Default::default();
    let with =
        References { queues: &queues, stages: &stages, open: &|file| Err(format!("{file}: no files here")) };
    let read = WireSpec::read(|key| texts.get(key).map(String::as_str), &with);
    read.map_err(|(key, what)| TestCaseError::fail(format!("{key}: {what}")))
}

fn examples_are_read_back<F: Family + Display + PartialEq + std::fmt::Debug>() {
    let named: BTreeSet<&str> = F::usages().into_iter().map(name).collect();
    let texts = || F::KINDS.iter().flat_map(|kind| kind.examples);
    let shown: BTreeSet<&str> = texts().map(|text| name((text, ""))).collect();
    assert_eq!(shown, named, "every kind has an example");
    for text in texts() {
        read_back::<F>(text).unwrap();
    }
    assert_eq!(F::examples().len(), texts().count());
}

#[test]
fn every_kind_has_examples_that_are_read_back_as_they_are_written() {
    examples_are_read_back::<QueueSpec>();
    examples_are_read_back::<StageSpec>();
    examples_are_read_back::<JitterSpec>();
    examples_are_read_back::<ArqSpec>();
    examples_are_read_back::<RecoveryKind>();
    examples_are_read_back::<ControlSpec>();
    examples_are_read_back::<PacingKind>();
    examples_are_read_back::<ValidationSpec>();
    examples_are_read_back::<EcnKind>();
    examples_are_read_back::<MarkerSpec>();
    examples_are_read_back::<Distribution>();
}
