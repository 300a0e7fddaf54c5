/// Returns CATNIP's notation for the queue, loss model or congestion control that tc (iproute2), ns-2 or ns-3 calls `name`, or the reason
/// why CATNIP has none. Returns `None` for an unknown name. The comparison ignores case, hyphens, underscores and the suffix `QueueDisc` of
/// ns-3.
pub(crate) fn equivalent(name: &str) -> Option<&'static str> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let plain = plain.strip_prefix("ns3").unwrap_or(&plain);
    let plain = plain.strip_suffix("queuedisc").unwrap_or(plain);
    EQUIVALENTS.iter().find(|(names, _)| names.contains(&plain)).map(|(_, notation)| *notation)
}

/// Names in tc, ns-2 and ns-3, with the result of [`equivalent`].
const EQUIVALENTS: &[(&[&str], &str)] = &[
    (&["pfifo", "fifo", "droptail"], "drop-tail:PACKETS"),
    (&["bfifo"], "drop-tail:BYTES, as in drop-tail:64KB"),
    (
        &["pfifofast", "prio"],
        "wrr, whose classes share the line by weights; strict priority is not available",
    ),
    (&["pfifoheaddrop"], "drop-head"),
    (&["sfq"], "fq-codel, which has a queue per connection; without CoDel it is not available"),
    (&["fq"], "fq-codel; the pacing of fq is the sender's (pacing = \"linux\")"),
    (
        &["drr", "wfq", "wf2q", "htb", "cbq", "hfsc", "mqprio", "ets"],
        "wrr; hierarchies of classes are not available",
    ),
    (&["gred", "rio"], "rio"),
    (&["ared", "adaptivered"], "ared"),
    (&["fqcodel"], "fq-codel"),
    (&["fqpie"], "fq-pie"),
    (&["dualpi2", "dualq"], "dual-pi2"),
    (&["cobalt", "fqcobalt", "cakemq"], "cake, whose law is COBALT"),
    (
        &["choke", "blue", "sfb", "pi", "rem", "avq", "jobs"],
        "not available: no study here needs it; a crate of your own can add it",
    ),
    (&["tbf"], "shaper:LIMIT,high=RATE/DEPTH, or the rate of the link"),
    (&["netem"], "the keys delay, jitter, loss and wire_loss of the link"),
    (&["gemodel", "gilbert", "gilbertelliot"], "gilbert-elliott"),
    (&["state", "4state", "fourstatemarkov"], "four-state"),
    (&["uniform", "random", "rateerrormodel", "errormodel"], "bernoulli:P"),
    (&["listerrormodel", "receivelisterrormodel", "list"], "packets:N,N,..."),
    (&["burst", "bursterrormodel"], "gilbert-elliott, or outage"),
    (&["tsw2cm", "tokenbucket", "dsred"], "srtcm:cir=RATE,cbs=BYTES,ebs=0B: its first bucket marks HIGH"),
    (&["tsw3cm"], "trtcm; meters by a sliding window are not available"),
    (&["police", "policing"], "policer:high=RATE/DEPTH,action=drop"),
    (
        &[
            "vegas",
            "westwood",
            "westwoodplus",
            "bic",
            "htcp",
            "hybla",
            "illinois",
            "yeah",
            "veno",
            "scalable",
            "highspeed",
            "lp",
            "ledbat",
            "cdg",
            "nv",
        ],
        "not available: its author's law has not been checked here; a crate of your own can add it",
    ),
    (
        &["newreno", "linuxreno", "sack", "sack1", "fack"],
        "control = \"reno\", with recovery = \"newreno\" or \"sack\"",
    ),
    (&["bbr2"], "bbr3, as the draft has it today"),
];

#[cfg(test)]
mod tests {
    use super::equivalent;

    #[test]
    fn names_of_peers_lead_to_what_is_written_here() {
        for (name, notation) in [
            ("fq_codel", "fq-codel"),
            ("ns3::FqCoDelQueueDisc", "fq-codel"),
            ("DropTail", "drop-tail"),
            ("TSW3CM", "trtcm"),
            ("dualpi2", "dual-pi2"),
        ] {
            assert!(equivalent(name).is_some_and(|found| found.starts_with(notation)), "{name}");
        }
        assert_eq!(equivalent("sfb"), equivalent("choke"));
        assert_eq!(equivalent("drop-tial"), None);
    }
}
