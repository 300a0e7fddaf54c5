use super::{Form, read, write};
use catnip_sim::app::{Adu, After, ConnectionVector, Observed, Order, Side};
use proptest::prelude::*;

/// Sequential connection with a request, two responses in a row and a FIN, and a concurrent connection, in the original form.
const ORIGINAL: &str = "\
# what a network has seen
SEQ 6000 2 17 4711              # begins after 6 ms
w 64800 6432
r 117000
l 0.01 0

> 245
t 51000
< 5100
t 630000
< 99
t 2000
CONC 1429000 2 1 18 4712
m 1460 536
c> 222
t> 62000
c< 726
c> 16
t> 725
t< 130
";

/// Connections of [`ORIGINAL`], written in the alternate form.
const ALTERNATE: &str = "\
S 6000 2 17 4711
w 64800 6432
r 117000
l 0.01 0
I 0 0 245
A 0 51000 5100
A 630000 0 99
A 2000 0 0
C 1429000 2 1 18 4712
m 1460 536
I 0 0 222
A 0 0 726
I 62000 0 16
I 725 0 0
A 130 0 0
";

fn adu(by: Side, after: After, wait_us: u64, bytes: u64) -> Adu {
    Adu { by, after, wait_us, bytes }
}

#[test]
fn both_forms_say_the_same() {
    use After::{Received, Sent};
    use Side::{Acceptor, Initiator};
    let vectors = read(ORIGINAL).unwrap();
    assert_eq!(vectors, read(ALTERNATE).unwrap());
    let [one, two] = &vectors[..] else { panic!("{vectors:?}") };
    assert_eq!((one.start_us, one.order, one.epochs()), (6000, Order::Sequential, 2));
    assert_eq!(
        one.adus,
        [
            adu(Initiator, Sent, 0, 245),
            adu(Acceptor, Received, 51_000, 5100),
            adu(Acceptor, Sent, 630_000, 99),
            adu(Acceptor, Sent, 2000, 0),
        ]
    );
    let observed = Observed {
        ids: [17, 4711],
        window_bytes: Some([64_800, 6432]),
        mss_bytes: None,
        min_rtt_us: Some(117_000),
        loss: Some([0.01, 0.0]),
    };
    assert_eq!(one.observed, observed);
    assert_eq!((two.start_us, two.order), (1_429_000, Order::Concurrent));
    assert_eq!(
        two.adus,
        [
            adu(Initiator, Sent, 0, 222),
            adu(Acceptor, Sent, 0, 726),
            adu(Initiator, Sent, 62_000, 16),
            adu(Initiator, Sent, 725, 0),
            adu(Acceptor, Sent, 130, 0),
        ]
    );
    assert_eq!(two.observed.mss_bytes, Some([1460, 536]));
    assert_eq!((two.bytes(Initiator), two.bytes(Acceptor)), (238, 726));
}

#[test]
fn what_was_read_is_written_in_either_form() {
    let vectors = read(ALTERNATE).unwrap();
    assert_eq!(write(&vectors, Form::Alternate).unwrap(), ALTERNATE);
    let original = write(&vectors, Form::Original).unwrap();
    assert_eq!(read(&original).unwrap(), vectors, "{original}");
    assert!(original.starts_with("SEQ 6000 2 17 4711\nw 64800 6432\nr 117000\nl 0.01 0\n> 245\nt 51000\n"));
}

#[test]
fn a_wait_of_nothing_counts_as_a_microsecond() {
    let vectors = read("SEQ 0 1 0 0\n> 10\nt 0\n< 20\nt 0\n").unwrap();
    assert_eq!(vectors, read("S 0 1 0 0\nI 0 0 10\nA 0 1 20\nA 1 0 0\n").unwrap());
    let vectors = read("CONC 0 2 0 0 0\nc> 10\nt> 0\nc> 20\n").unwrap();
    assert_eq!(vectors, read("C 0 2 0 0 0\nI 0 0 10\nI 0 0 20\n").unwrap());
    assert_eq!(vectors[0].adus[1].wait_us, 1);
}

#[test]
fn connections_come_in_the_order_in_which_they_start() {
    let vectors = read("S 7 1 1 0\nI 0 0 10\nS 3 1 2 0\nI 0 0 10\nSEQ 7 1 3 0\n> 10\n").unwrap();
    assert_eq!(vectors.iter().map(|it| it.observed.ids[0]).collect::<Vec<_>>(), [2, 1, 3]);
}

#[test]
fn the_original_form_refuses_what_it_cannot_say() {
    let vectors = read("S 0 1 0 0\nI 0 0 10\nS 0 2 0 0\nI 0 0 10\nA 0 5 10\nI 7 0 10\n").unwrap();
    let error = write(&vectors, Form::Original).unwrap_err();
    assert_eq!(error, "connection 2: the original form cannot express its waits");
    assert!(write(&vectors, Form::Alternate).is_ok());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, message) in [
        ("> 10", "line 1: \">\": expected SEQ, CONC, S or C"),
        ("SEQ 0 1 0\n> 10", "line 1: 3 values: expected 4"),
        ("CONC 0 1 0 0\nc> 10", "line 1: 4 values: expected 5"),
        ("SEQ -1 1 0 0\n> 10", "line 1: \"-1\": expected a whole number"),
        ("SEQ 1e3 1 0 0\n> 10", "line 1: \"1e3\": expected a whole number"),
        ("SEQ 99999999999999999999 1 0 0\n> 10", "expected a whole number"),
        ("SEQ 9999999999999999 1 0 0\n> 10", "microseconds at most"),
        ("\n# a comment\nSEQ 0 1 0 0\n> many", "line 4: \"many\": expected a whole number"),
        ("SEQ 0 1 0 0\n> 10 20", "line 2: 2 values: expected 1"),
        ("SEQ 0 1 0 0\n> 9999999999999", "line 2: 9999999999999: expected 1099511627776 bytes at most"),
        ("SEQ 0 1 0 0\nx 10", "line 2: \"x\": expected m, w, r, l, >, < or t at the start of a line"),
        ("SEQ 0 1 0 0\nI 0 0 10", "line 2: \"I\": expected m, w"),
        ("S 0 1 0 0\n> 10", "line 2: \">\": expected m, w, r, l, I or A at the start of a line"),
        ("CONC 0 1 0 0 0\n> 10", "expected m, w, r, l, c>, c<, t> or t<"),
        ("SEQ 0 1 0 0\nt 10\n> 10", "line 2: a wait (t) before the first ADU"),
        ("SEQ 0 2 0 0\n> 10\n< 10", "line 3: no wait (t) after the previous ADU"),
        ("SEQ 0 2 0 0\n> 10\nt 1\nt 1", "line 4: two waits"),
        ("CONC 0 2 0 0 0\nc> 10\nc> 10", "line 3: no wait after the previous ADU of this end"),
        ("CONC 0 1 0 0 0\nc> 10\nt> 1\nt> 1", "line 4: two waits"),
        ("SEQ 0 1 0 0\n> 10\nt 5\n> 0\nt 5\n> 7", "line 6: an ADU after the FIN"),
        ("S 0 1 0 0\nI 0 0 10\nI 5 0 0\nI 5 0 1", "line 4: an ADU after the FIN"),
        ("S 0 2 0 0\nI 0 0 10\nI 0 0 10", "line 3: both waits are 0"),
        ("S 0 1 0 0\nI 5 5 10", "line 2: two waits: one of them must be 0"),
        ("S 0 1 0 0\nA 0 5 10", "line 2: a wait for the other end, which has no ADU yet"),
        (
            "C 0 1 1 0 0\nI 0 0 10\nA 0 5 10",
            "line 3: 5: an end of a concurrent connection does not wait for the other end",
        ),
        ("S 0 1 0 0\nw 1\nI 0 0 10", "line 2: 1 values: expected 2"),
        ("S 0 1 0 0\nw 1 1\nw 1 1\nI 0 0 10", "line 3: given twice"),
        ("S 0 1 0 0\nl 0 1.5\nI 0 0 10", "line 2: \"1.5\": expected a share from 0 to 1"),
        ("S 0 1 0 0\nl 0 NaN\nI 0 0 10", "line 2: \"NaN\": expected a share from 0 to 1"),
        ("S 0 0 0 0", "line 1: no ADUs on this connection"),
        ("S 0 0 0 0\nI 0 0 0\nS 0 1 0 0\nI 0 0 1", "line 1: no ADUs on this connection"),
        ("S 0 1 0 0\nI 0 0 1\nSEQ 0 5 0 0\n> 1\nt 1\n< 2", "line 3: 5 epochs: 1 ADUs of the initiator"),
        ("C 0 2 1 0 0\nI 0 0 1\nA 0 0 1", "line 1: 2 and 1 ADUs: 1 and 1 follow"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

/// Strategy that generates connection vectors which both forms can represent.
fn vectors() -> impl Strategy<Value = Vec<ConnectionVector>> {
    let side = || prop_oneof![Just(Side::Initiator), Just(Side::Acceptor)];
    let adu = (side(), 1..1u64 << 40, 1..1u64 << 40);
    let pair = (0..1u64 << 40, 0..1u64 << 40).prop_map(|(a, b)| [a, b]);
    let share = || 0.0..=1.0f64;
    let observed = (
        pair.clone(),
        prop::option::of(pair.clone()),
        prop::option::of(pair),
        prop::option::of(any::<u64>()),
        prop::option::of((share(), share()).prop_map(|(a, b)| [a, b])),
    )
        .prop_map(|(ids, window_bytes, mss_bytes, min_rtt_us, loss)| Observed {
            ids,
            window_bytes,
            mss_bytes,
            min_rtt_us,
            loss,
        });
    let vector = (
        any::<bool>(),
        0..1u64 << 40,
        prop::collection::vec(adu, 1..12),
        [any::<bool>(), any::<bool>()],
        observed,
    );
    let vector = vector.prop_map(|(concurrent, start_us, drawn, fins, observed)| {
        let order = if concurrent { Order::Concurrent } else { Order::Sequential };
        let mut adus: Vec<Adu> = Vec::new();
        for (by, wait_us, bytes) in drawn {
            let first = adus.is_empty() || concurrent && adus.iter().all(|adu| adu.by != by);
            let in_turn = concurrent || adus.last().is_none_or(|last| last.by == by);
            let after = if in_turn { After::Sent } else { After::Received };
            adus.push(Adu { by, after, wait_us: if first { 0 } else { wait_us }, bytes });
        }
        for (by, _) in [Side::Initiator, Side::Acceptor].into_iter().zip(fins).filter(|(_, fin)| *fin) {
            let in_turn = concurrent || adus.last().is_none_or(|last| last.by == by);
            let after = if in_turn { After::Sent } else { After::Received };
            adus.push(Adu { by, after, wait_us: 17, bytes: 0 });
        }
        ConnectionVector { start_us, order, adus, observed }
    });
    prop::collection::vec(vector, 0..5).prop_map(|mut vectors| {
        vectors.sort_by_key(|vector| vector.start_us);
        vectors
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_the_same(vectors in vectors()) {
        for &form in Form::ALL {
            let text = write(&vectors, form).unwrap();
            let reread = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            prop_assert_eq!(&reread, &vectors, "{}", text);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = read(&text);
    }

    /// Tests that lines with valid keywords in any order and with any numbers cause no panic: vectors that are read can be written and read
    /// again.
    #[test]
    fn no_lines_make_the_reader_panic(
        lines in prop::collection::vec(
            ("SEQ|CONC|S|C|m|w|r|l|>|<|t|c>|c<|t>|t<|I|A|#",
             prop::collection::vec(prop_oneof![0..3u64, any::<u64>()], 0..6)),
            0..20,
        ),
    ) {
        let line = |(name, values): &(String, Vec<u64>)| {
            values.iter().fold(name.clone(), |line, value| format!("{line} {value}"))
        };
        let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        if let Ok(vectors) = read(&text) {
            let reread = read(&write(&vectors, Form::Alternate).unwrap()).unwrap();
            prop_assert_eq!(reread, vectors);
        }
    }
}
