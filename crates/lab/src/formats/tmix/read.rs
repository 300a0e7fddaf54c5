use super::Form;
use catnip_sim::app::{Adu, After, ConnectionVector, Observed, Order, Side};
use std::fmt;

/// Error in a Tmix trace, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Reads connection vectors in either form, and returns them in the order in which they start.
pub fn read(text: &str) -> Result<Vec<ConnectionVector>, ReadError> {
    let mut vectors = Vec::new();
    let mut draft: Option<Draft> = None;
    for (index, line) in text.lines().enumerate() {
        let tokens: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let [name, values @ ..] = &tokens[..] else { continue };
        let error_at = |message| ReadError { line: index + 1, message };
        if let Some((form, order)) = header(name) {
            let next = Draft::begin(index + 1, form, order, values).map_err(error_at)?;
            if let Some(previous) = draft.replace(next) {
                vectors.push(previous.finish()?);
            }
        } else {
            let draft = draft.as_mut().ok_or_else(|| {
                error_at(format!("{name:?}: expected SEQ, CONC, S or C at the start of a connection"))
            })?;
            draft.add(name, values).map_err(error_at)?;
        }
    }
    if let Some(previous) = draft {
        vectors.push(previous.finish()?);
    }
    vectors.sort_by_key(|vector| vector.start_us);
    Ok(vectors)
}

/// Maximum of a time, microseconds: a hundred days, longer than any run.
const MAX_US: u64 = 100 * 86_400 * 1_000_000;
/// Maximum size of an ADU, a terabyte. A larger size is a typing error.
const MAX_BYTES: u64 = 1 << 40;

fn header(name: &str) -> Option<(Form, Order)> {
    match name {
        "SEQ" => Some((Form::Original, Order::Sequential)),
        "CONC" => Some((Form::Original, Order::Concurrent)),
        "S" => Some((Form::Alternate, Order::Sequential)),
        "C" => Some((Form::Alternate, Order::Concurrent)),
        _ => None,
    }
}

/// Connection vector whose lines are being read.
#[derive(Debug)]
struct Draft {
    line: usize,
    form: Form,
    /// Counts in the header: the number of epochs of a sequential vector, or the number of ADUs of each end of a concurrent vector.
    counts: Vec<u64>,
    /// Waiting times that were read in the original form since the last ADU of each end. A sequential vector uses only the first element.
    waits: [Option<u64>; 2],
    vector: ConnectionVector,
}

impl Draft {
    fn begin(line: usize, form: Form, order: Order, values: &[&str]) -> Result<Self, String> {
        let (start_us, counts, ids) = match order {
            Order::Sequential => {
                let [start_us, epochs, first, second] = numbers(values)?;
                (start_us, vec![epochs], [first, second])
            }
            Order::Concurrent => {
                let [start_us, initiator, acceptor, first, second] = numbers(values)?;
                (start_us, vec![initiator, acceptor], [first, second])
            }
        };
        let observed = Observed { ids, ..Observed::default() };
        let start_us = check_max(start_us, MAX_US, "microseconds")?;
        let vector = ConnectionVector { start_us, order, adus: Vec::new(), observed };
        Ok(Self { line, form, counts, waits: [None; 2], vector })
    }

    fn add(&mut self, name: &str, values: &[&str]) -> Result<(), String> {
        let observed = &mut self.vector.observed;
        match (name, self.form, self.vector.order) {
            ("w", ..) => set_once(&mut observed.window_bytes, numbers(values)?),
            ("m", ..) => set_once(&mut observed.mss_bytes, numbers(values)?),
            ("r", ..) => {
                let [rtt_us] = numbers(values)?;
                set_once(&mut observed.min_rtt_us, rtt_us)
            }
            ("l", ..) => set_once(&mut observed.loss, shares(values)?),
            (">" | "<", Form::Original, Order::Sequential) => self.add_sequential(side(name), values),
            ("t", Form::Original, Order::Sequential) => {
                if self.vector.adus.is_empty() {
                    return Err("a wait (t) before the first ADU".into());
                }
                self.wait(0, values)
            }
            ("c>" | "c<", Form::Original, Order::Concurrent) => self.add_concurrent(side(&name[1..]), values),
            ("t>" | "t<", Form::Original, Order::Concurrent) => self.wait(side(&name[1..]) as usize, values),
            ("I", Form::Alternate, _) => self.add_alternate(Side::Initiator, values),
            ("A", Form::Alternate, _) => self.add_alternate(Side::Acceptor, values),
            (_, Form::Original, Order::Sequential) => Err(unknown(name, "m, w, r, l, >, < or t")),
            (_, Form::Original, Order::Concurrent) => Err(unknown(name, "m, w, r, l, c>, c<, t> or t<")),
            (_, Form::Alternate, _) => Err(unknown(name, "m, w, r, l, I or A")),
        }
    }

    fn wait(&mut self, of: usize, values: &[&str]) -> Result<(), String> {
        let [wait_us] = numbers(values)?;
        let wait_us = check_max(wait_us, MAX_US, "microseconds")?;
        if self.waits[of].replace(wait_us).is_some() {
            return Err("two waits without an ADU in between".into());
        }
        Ok(())
    }

    /// Adds the ADU of a line `> SIZE` or `< SIZE`. The preceding waiting time counts from the arrival of the previous ADU if the other end
    /// has sent that ADU, otherwise from the transmission of the previous ADU.
    fn add_sequential(&mut self, by: Side, values: &[&str]) -> Result<(), String> {
        let [bytes] = numbers(values)?;
        let (after, wait_us) = match (self.vector.adus.last(), self.waits[0].take()) {
            (None, _) => (After::Sent, 0),
            (Some(_), None) => return Err("no wait (t) after the previous ADU".into()),
            (Some(last), Some(wait_us)) if last.by == by => (After::Sent, wait_us.max(1)),
            (Some(_), Some(wait_us)) => (After::Received, wait_us.max(1)),
        };
        self.push(Adu { by, after, wait_us, bytes })
    }

    /// Adds the ADU of a line `c> SIZE` or `c< SIZE`. The waiting time counts from the previous ADU of the same end.
    fn add_concurrent(&mut self, by: Side, values: &[&str]) -> Result<(), String> {
        let [bytes] = numbers(values)?;
        let wait_us = match (self.has_adu(by), self.waits[by as usize].take()) {
            (true, None) => return Err("no wait after the previous ADU of this end".into()),
            (true, Some(wait_us)) => wait_us.max(1),
            (false, wait_us) => wait_us.unwrap_or(0),
        };
        self.push(Adu { by, after: After::Sent, wait_us, bytes })
    }

    /// Adds the ADU of a line that begins with `I` or `A`, which also gives both waiting times.
    fn add_alternate(&mut self, by: Side, values: &[&str]) -> Result<(), String> {
        let [send_us, receive_us, bytes] = numbers(values)?;
        check_max(send_us.max(receive_us), MAX_US, "microseconds")?;
        let peer_has_adu = self.vector.adus.iter().any(|adu| adu.by != by);
        let (after, wait_us) = match (send_us, receive_us, self.vector.order) {
            (_, 1.., Order::Concurrent) => {
                return Err(format!(
                    "{receive_us}: an end of a concurrent connection does not wait for the other end"
                ));
            }
            (1.., 1.., _) => return Err("two waits: one of them must be 0".into()),
            (0, 0, Order::Sequential) if self.has_adu(by) => {
                return Err("both waits are 0: the ADU would never be sent".into());
            }
            (0, 0, Order::Concurrent) if self.has_adu(by) => (After::Sent, 1),
            (_, 0, _) => (After::Sent, send_us),
            (0, _, _) if !peer_has_adu => {
                return Err("a wait for the other end, which has no ADU yet".into());
            }
            (0, _, _) => (After::Received, receive_us),
        };
        self.push(Adu { by, after, wait_us, bytes })
    }

    fn has_adu(&self, by: Side) -> bool {
        self.vector.adus.iter().rev().any(|adu| adu.by == by)
    }

    fn push(&mut self, adu: Adu) -> Result<(), String> {
        let last = self.vector.adus.iter().rev().find(|other| other.by == adu.by);
        if last.is_some_and(|last| last.bytes == 0) {
            return Err("an ADU after the FIN of this end".into());
        }
        check_max(adu.bytes, MAX_BYTES, "bytes")?;
        let wait_us = if adu.bytes == 0 { adu.wait_us.max(1) } else { adu.wait_us };
        self.vector.adus.push(Adu { wait_us, ..adu });
        Ok(())
    }

    /// Completes the vector after its last line.
    fn finish(mut self) -> Result<ConnectionVector, ReadError> {
        let line = self.line;
        self.checked().map_err(|message| ReadError { line, message })
    }

    fn checked(&mut self) -> Result<ConnectionVector, String> {
        let adus = &self.vector.adus;
        match (self.vector.order, adus.last().copied(), self.waits) {
            (Order::Sequential, Some(last), [Some(wait_us), _]) => {
                self.push(Adu { by: last.by, after: After::Sent, wait_us, bytes: 0 })?;
            }
            (Order::Sequential, ..) => {}
            (Order::Concurrent, _, waits) => {
                for (by, wait_us) in [Side::Initiator, Side::Acceptor].into_iter().zip(waits) {
                    if let Some(wait_us) = wait_us {
                        self.push(Adu { by, after: After::Sent, wait_us, bytes: 0 })?;
                    }
                }
                // The two ends are independent of each other, so both FINs can follow all other ADUs. The initiator's FIN comes first.
                self.vector
                    .adus
                    .sort_by_key(|adu| (adu.bytes == 0, adu.bytes == 0 && adu.by == Side::Acceptor));
            }
        }
        let adu_count =
            |by| self.vector.adus.iter().filter(|adu| adu.by == by && adu.bytes > 0).count() as u64;
        let (ours, theirs) = (adu_count(Side::Initiator), adu_count(Side::Acceptor));
        if ours + theirs == 0 {
            return Err("no ADUs on this connection".into());
        }
        match self.counts[..] {
            [epochs] if !(ours.max(theirs)..=ours + theirs).contains(&epochs) => Err(format!(
                "{epochs} epochs: {ours} ADUs of the initiator and {theirs} of the acceptor follow"
            )),
            [first, second] if (first, second) != (ours, theirs) => {
                Err(format!("{first} and {second} ADUs: {ours} and {theirs} follow"))
            }
            _ => Ok(self.vector.clone()),
        }
    }
}

fn side(arrow: &str) -> Side {
    if arrow == ">" { Side::Initiator } else { Side::Acceptor }
}

fn unknown(name: &str, expected: &str) -> String {
    format!("{name:?}: expected {expected} at the start of a line of this connection")
}

fn set_once<T>(slot: &mut Option<T>, value: T) -> Result<(), String> {
    if slot.replace(value).is_some() { Err("given twice for this connection".into()) } else { Ok(()) }
}

fn numbers<const N: usize>(values: &[&str]) -> Result<[u64; N], String> {
    let read = values.iter().map(|text| integer(text)).collect::<Result<Vec<_>, _>>()?;
    read.try_into().map_err(|read: Vec<u64>| format!("{} values: expected {N}", read.len()))
}

fn shares(values: &[&str]) -> Result<[f64; 2], String> {
    let share = |text: &&str| {
        let read = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        read.ok_or_else(|| format!("{text:?}: expected a share from 0 to 1"))
    };
    let read = values.iter().map(share).collect::<Result<Vec<f64>, _>>()?;
    read.try_into().map_err(|read: Vec<f64>| format!("{} values: expected 2", read.len()))
}

fn integer(text: &str) -> Result<u64, String> {
    let has_digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    let read = text.parse().ok().filter(|_| has_digits_only);
    read.ok_or_else(|| format!("{text:?}: expected a whole number"))
}

fn check_max(value: u64, max: u64, unit: &str) -> Result<u64, String> {
    if value <= max { Ok(value) } else { Err(format!("{value}: expected {max} {unit} at most")) }
}
