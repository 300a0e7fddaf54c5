use super::Form;
use catnip_sim::app::{Adu, After, ConnectionVector, Order, Side};
use std::fmt::Write;

/// Writes connection vectors in `form`. The original form can express a sequential vector only if each waiting time counts from the
/// preceding ADU. An error gives the number of the vector that cannot be expressed, from 1.
pub fn write(vectors: &[ConnectionVector], form: Form) -> Result<String, String> {
    let mut text = String::new();
    for (vector, number) in vectors.iter().zip(1..) {
        write_header(&mut text, vector, form);
        match (form, vector.order) {
            (Form::Alternate, _) => vector.adus.iter().for_each(|adu| write_with_waits(&mut text, adu)),
            (Form::Original, Order::Concurrent) => {
                vector.adus.iter().for_each(|adu| write_concurrent(&mut text, adu));
            }
            (Form::Original, Order::Sequential) => write_sequential(&mut text, &vector.adus)
                .ok_or_else(|| format!("connection {number}: the original form cannot express its waits"))?,
        }
    }
    Ok(text)
}

fn write_header(text: &mut String, vector: &ConnectionVector, form: Form) {
    let observed = &vector.observed;
    let adu_count = |by| vector.adus.iter().filter(|adu| adu.by == by && adu.bytes > 0).count();
    let (name, counts) = match (vector.order, form) {
        (Order::Sequential, Form::Original) => ("SEQ", vector.epochs().to_string()),
        (Order::Sequential, Form::Alternate) => ("S", vector.epochs().to_string()),
        (Order::Concurrent, _) => {
            let name = if form == Form::Original { "CONC" } else { "C" };
            (name, format!("{} {}", adu_count(Side::Initiator), adu_count(Side::Acceptor)))
        }
    };
    let [first, second] = observed.ids;
    line(text, format_args!("{name} {} {counts} {first} {second}", vector.start_us));
    if let Some([initiator, acceptor]) = observed.mss_bytes {
        line(text, format_args!("m {initiator} {acceptor}"));
    }
    if let Some([initiator, acceptor]) = observed.window_bytes {
        line(text, format_args!("w {initiator} {acceptor}"));
    }
    if let Some(rtt_us) = observed.min_rtt_us {
        line(text, format_args!("r {rtt_us}"));
    }
    if let Some([to_acceptor, to_initiator]) = observed.loss {
        line(text, format_args!("l {to_acceptor} {to_initiator}"));
    }
}

fn write_with_waits(text: &mut String, adu: &Adu) {
    let name = if adu.by == Side::Initiator { "I" } else { "A" };
    let (send_us, receive_us) = match adu.after {
        After::Sent => (adu.wait_us, 0),
        After::Received => (0, adu.wait_us),
    };
    line(text, format_args!("{name} {send_us} {receive_us} {}", adu.bytes));
}

fn write_concurrent(text: &mut String, adu: &Adu) {
    let arrow = arrow(adu.by);
    if adu.wait_us > 0 {
        line(text, format_args!("t{arrow} {}", adu.wait_us));
    }
    if adu.bytes > 0 {
        line(text, format_args!("c{arrow} {}", adu.bytes));
    }
}

fn write_sequential(text: &mut String, adus: &[Adu]) -> Option<()> {
    for (index, adu) in adus.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| adus[before].by);
        let follows = match before {
            None => (After::Sent, 0) == (adu.after, adu.wait_us),
            Some(by) => (by == adu.by) == (adu.after == After::Sent),
        };
        if !follows {
            return None;
        }
        if before.is_some() {
            line(text, format_args!("t {}", adu.wait_us));
        }
        let is_end = adu.bytes == 0 && index + 1 == adus.len() && before == Some(adu.by);
        if !is_end {
            line(text, format_args!("{} {}", arrow(adu.by), adu.bytes));
        }
    }
    Some(())
}

fn arrow(by: Side) -> &'static str {
    if by == Side::Initiator { ">" } else { "<" }
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("writing to a String cannot fail");
}
