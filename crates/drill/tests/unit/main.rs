//! Tests of the language of scripts, of their comparison, and of the simulated host.

#[path = "../scripts/mod.rs"]
mod scripts;

use catnip_base::{Span, Time};
use catnip_drill::case::Case;
use catnip_drill::packet::Packet;
use catnip_drill::record::{Record, first_difference};
use catnip_drill::script::{Call, Event, Script};
use catnip_drill::simulated;
use proptest::prelude::*;
use scripts::{open_scripts, scripts};

const OPENING: &str = "
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+.01 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 2000
+0 accept(3, ..., ...) = 4
";

fn script(lines: &str) -> Script {
    Script::parse(&format!("{OPENING}{lines}")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_simulated_host_does_what_each_script_says() {
    for (name, script) in scripts() {
        let record = simulated::run(&script).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(first_difference(&script, &record), None, "{name}");
    }
}

#[test]
fn the_simulated_host_differs_from_each_open_script() {
    for (name, script) in open_scripts() {
        let agrees = simulated::run(&script).is_ok_and(|record| first_difference(&script, &record).is_none());
        assert!(!agrees, "{name} can move to the others");
    }
}

#[test]
fn a_printed_script_is_read_as_the_same() {
    for (name, script) in scripts().into_iter().chain(open_scripts()) {
        let again = Script::parse(&script.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let plain = |script: &Script| -> Vec<_> {
            script.lines.iter().map(|line| (line.from, line.until, line.event.clone())).collect()
        };
        assert_eq!((plain(&again), again.options), (plain(&script), script.options.clone()), "{name}");
    }
}

#[test]
fn packets_have_the_notation_of_packetdrill() {
    for text in [
        "S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>",
        "[ect0] P. 1:1001(1000) ack 1 win 257",
        "[ce] .EW 1:1(0) ack 4001 <nop,nop,sack 5001:6001 8001:9001>",
        "F. 10:10(0) ack 1 <...>",
    ] {
        assert_eq!(Packet::parse(text).map(|packet| packet.to_string()), Ok(text.to_owned()));
    }
    let any = Packet::parse("S. 0:0(0) ack 1 <...>").map(|packet| packet.options);
    assert_eq!(any, Ok(None));
}

#[test]
fn times_are_absolute_or_after_the_line_before_and_may_be_ranges() {
    let script = script("+.1~+.25 > F. 1:1(0) ack 1\n0.9 close(4) = 0");
    let ms = |ms: u64| Time::ZERO + Span::from_millis(ms);
    let [.., range, last] = &script.lines[..] else { panic!("eight lines") };
    assert_eq!((range.from, range.until, last.from), (ms(210), ms(360), ms(900)));
    assert_eq!(last.event, Event::Call(Call::Close));
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (line, told) in [
        ("+0 < . 1:1(0) ack", "line 8: ack without a value"),
        ("+0 < . 1:3(1) ack 1", "line 8: \"1:3(1)\", where the length is not the difference"),
        ("+0 < Q 1:1(0)", "line 8: the flag 'Q'"),
        ("+0 < . 1:1(0)", "line 8: an ACK bit (.) without ack, or ack without an ACK bit"),
        ("+0 < S 0:0(0) <mss much>", "line 8: the number \"much\""),
        ("+0 < S 0:0(0) <mss 9>", "line 8: the number 9: expected 88 to 65000"),
        ("+0 < S 0:0(0) <mss 1000,nop,wscale 15>", "line 8: the number 15: expected 0 to 14"),
        ("+0 < . 1:1(0) ack 5000000000", "line 8: the number 5000000000: expected 0 to 1073741824"),
        ("+0 < . 1:90001(90000) ack 1", "line 8: the number 90000: expected 0 to 65000"),
        ("+0 write(4, ..., 9000000) = 9000000", "line 8: the number \"9000000\": expected 0 to 4194304"),
        ("--tolerance_usecs=1e3", "line 8: tolerance_usecs = \"1e3\": expected 0 to 60000000"),
        ("0 > F. 1:1(0) ack 1", "line 8: the time 0, which is before that of the line before"),
        ("+1e300 close(4) = 0", "line 8: the time \"+1e300\", which is out of range"),
        ("+0 fork(4) = 0", "line 8: the unknown call \"fork(4) = 0\""),
        ("+0 %{ assert tcpi_rtt == 1 }%", "line 8: the unknown field \"tcpi_rtt\""),
        ("--magic=1", "line 8: unknown option --magic=1"),
    ] {
        assert_eq!(Script::parse(&format!("{OPENING}{line}")).unwrap_err(), told);
    }
}

#[test]
fn a_host_that_cannot_be_simulated_is_told() {
    let of = |text: &str| simulated::run(&Script::parse(text).expect("a script")).unwrap_err();
    assert_eq!(of("0 listen(3, 1) = 0"), "a script without a SYN from the peer");
    assert_eq!(of("0 < S 0:0(0) win 9 <mss 90,sackOK>"), "a packet before listen or connect");
    let without_sack = "0 listen(3, 1) = 0\n0 < S 0:0(0) win 9 <mss 1000>";
    assert_eq!(of(without_sack), "the profile linux-6 needs sackOK");
    assert!(of(&format!("--profile=tahoe\n{without_sack}")).contains("linux-6"));
}

#[test]
fn the_first_line_that_differs_is_told() {
    let written = "+0 write(4, ..., 2000) = 2000\n+0 > . 1:2001(2000) ack 1\n";
    let differs = |lines: &str| {
        let script = script(lines);
        let record = simulated::run(&script).expect("it can be simulated");
        first_difference(&script, &record).map(|it| it.to_string())
    };
    assert_eq!(differs(written), None, "one line for two segments");
    let other = differs(&written.replace("1:2001(2000)", "1:1501(1500)"));
    assert_eq!(
        other.as_deref(),
        Some("line 9: . 1001:1501(500) ack 1: sent is [noecn] . 1001:2001(1000) ack 1 at 0.110000 s")
    );
    assert_eq!(differs("+.5 > . 1:2(1) ack 1").as_deref(), Some("line 8: . 1:2(1) ack 1: nothing is sent"));
    let early = differs("+0 write(4, ..., 10) = 10\n+.5 > . 1:11(10) ack 1");
    assert_eq!(early.as_deref(), Some("line 9: . 1:11(10) ack 1 at 0.610000 s: it is sent at 0.110000 s"));
    let more = differs("+0 write(4, ..., 10) = 10");
    assert_eq!(more.as_deref(), Some("after the last line: sent is [noecn] . 1:11(10) ack 1 at 0.110000 s"));
    let value = differs(&format!("{written}+0 %{{ assert tcpi_snd_cwnd == 9, tcpi_snd_cwnd }}%"));
    assert_eq!(value.as_deref(), Some("line 10: %{ assert tcpi_snd_cwnd == 9, tcpi_snd_cwnd }%: it is 10"));
}

#[test]
fn a_call_that_fails_is_a_difference_though_all_packets_agree() {
    let record = Record { failure: Some("accept: refused".into()), ..Record::default() };
    let difference = first_difference(&Script::default(), &record).map(|it| it.text);
    assert_eq!(difference.as_deref(), Some("accept: refused"));
}

#[test]
fn a_random_case_is_a_script_that_its_simulated_host_agrees_with() {
    for number in 0..300 {
        let script = Case::random(3, number).script().unwrap_or_else(|error| panic!("{number}: {error}"));
        let script = Script::parse(&script.to_string()).unwrap_or_else(|error| panic!("{number}: {error}"));
        let record = simulated::run(&script).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(first_difference(&script, &record), None, "{number}:\n{script}");
    }
}

#[test]
fn cases_meet_what_they_are_meant_to_meet() {
    let scripts: Vec<String> = (0..300)
        .map(|number| Case::random(5, number).script().expect("it can be simulated").to_string())
        .collect();
    for what in
        ["sack", "--ecn=1", "[ce]", "TS val", "connect", "F.", ".E", "\"cubic\"", "\"reno\"", "NODELAY", "~+"]
    {
        let count = scripts.iter().filter(|script| script.contains(what)).count();
        assert!(count >= 3, "{what}: {count}");
    }
}

#[test]
fn simpler_cases_are_others_and_end() {
    let mut case = Case::random(1, 0);
    for _ in 0..1000 {
        let simpler = case.simpler();
        assert!(!simpler.contains(&case));
        match simpler.into_iter().next() {
            Some(next) => case = next,
            None => return,
        }
    }
    panic!("a case can always be made simpler");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_to_a_script_makes_more_than_an_error(
        which in 0..80usize,
        damages in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9+.~:(){}<>%,a-zA-Z ]{0,9}", 0..9usize), 1..6),
    ) {
        let scripts = scripts();
        let mut text: Vec<char> = scripts[which % scripts.len()].1.to_string().chars().collect();
        for (at, with, instead_of) in damages {
            let at = at.index(text.len());
            text.splice(at..(at + instead_of).min(text.len()), with.chars());
            text.push('\n');
        }
        if let Ok(script) = Script::parse(&text.into_iter().collect::<String>())
            && let Ok(record) = simulated::run(&script)
        {
            let _ = first_difference(&script, &record);
        }
    }
}
