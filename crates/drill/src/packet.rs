//! Packets of scripts, in packetdrill's notation.

use catnip_net::Ecn;
use catnip_tcp::MAX_WINDOW_SCALE;
use catnip_wire::TcpFlags;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Packet that a script delivers or expects. Sequence numbers are relative: the SYN of either side has number 0, and the first byte of its
/// data number 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// ECN codepoint; `None` if it does not matter, which stands for not ECN-capable in a packet that is delivered.
    pub ecn: Option<Ecn>,
    /// Control bits; PSH is ignored.
    pub flags: TcpFlags,
    /// Sequence number of the first byte.
    pub seq: u64,
    /// Number of data bytes.
    pub len: u32,
    /// Acknowledgement number; `None` without an ACK bit.
    pub ack: Option<u64>,
    /// Window field, not scaled; `None` if it does not matter.
    pub window: Option<u16>,
    /// TCP options; `None` if they do not matter.
    pub options: Option<Options>,
}

/// TCP options of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift count of the window.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// SACK blocks, the most recent one first.
    pub sack: Vec<(u64, u64)>,
    /// Timestamp value and echo reply, ms after the start of the script, plus one; zero stands for none.
    pub timestamps: Option<(u32, u32)>,
}

/// Largest sequence number of a script. Differences of numbers on the wire are unambiguous below half of their range.
const MAX_SEQUENCE: u64 = 1 << 30;
/// Largest number of data bytes in a packet; its headers fit beside it in an IP packet.
const MAX_PAYLOAD: u32 = 65_000;
/// Letters of control bits, in packetdrill's order. An ACK bit is a dot.
const LETTERS: [(char, TcpFlags); 8] = [
    ('F', TcpFlags::FIN),
    ('S', TcpFlags::SYN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('.', TcpFlags::ACK),
    ('U', TcpFlags::URG),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
];
/// Words for ECN codepoints.
const CODEPOINTS: [(&str, Ecn); 4] =
    [("noecn", Ecn::NOT_ECT), ("ect0", Ecn::ECT_0), ("ect1", Ecn::ECT_1), ("ce", Ecn::CE)];

impl Packet {
    /// Returns true if these control bits are set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Parses a packet such as `[ce] . 1:1001(1000) ack 1 win 257 <sack 3001:4001>`. An error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, options) = match text.split_once('<') {
            Some((text, inner)) => {
                let inner = inner.trim_end().strip_suffix('>').ok_or("options that do not end")?;
                (text, if inner == "..." { None } else { Some(Options::parse(inner)?) })
            }
            None => (text, Some(Options::default())),
        };
        let mut words = text.split_whitespace().peekable();
        let ecn = words.next_if(|word| word.starts_with('[')).map(codepoint).transpose()?;
        let flags = flags_of(words.next().ok_or("a packet without flags")?)?;
        let (seq, len) = sequence(words.next().ok_or("a packet without sequence numbers")?)?;
        let mut packet = Self { ecn, flags, seq, len, ack: None, window: None, options };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} without a value"))?;
            match word {
                "ack" => packet.ack = Some(number_in(value, 0..=MAX_SEQUENCE)?),
                "win" => packet.window = Some(number(value)?),
                _ => return Err(format!("{word:?}, which is neither ack nor win")),
            }
        }
        if packet.ack.is_some() != packet.has(TcpFlags::ACK) {
            return Err("an ACK bit (.) without ack, or ack without an ACK bit".into());
        }
        Ok(packet)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((word, _)) = self.ecn.and_then(|ecn| CODEPOINTS.iter().find(|(_, one)| *one == ecn)) {
            write!(f, "[{word}] ")?;
        }
        for (letter, _) in LETTERS.iter().filter(|(_, bit)| self.has(*bit)) {
            write!(f, "{letter}")?;
        }
        write!(f, " {}:{}({})", self.seq, self.seq + u64::from(self.len), self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        match &self.options {
            None => write!(f, " <...>"),
            Some(options) if *options == Options::default() => Ok(()),
            Some(options) => write!(f, " <{options}>"),
        }
    }
}

impl Options {
    fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in text.split(',').map(str::trim).filter(|option| !["nop", "eol", ""].contains(option)) {
            let words: Vec<&str> = option.split_whitespace().collect();
            match words[..] {
                ["mss", mss] => options.mss = Some(number_in(mss, 88..=MAX_PAYLOAD as u16)?),
                ["wscale", shift] => options.window_scale = Some(number_in(shift, 0..=MAX_WINDOW_SCALE)?),
                ["sackOK"] => options.sack_permitted = true,
                ["sack", ref blocks @ ..] => {
                    options.sack = blocks.iter().map(|block| range(block)).collect::<Result<_, _>>()?;
                }
                ["TS", "val", value, "ecr", echo] => {
                    options.timestamps = Some((number(value)?, number(echo)?))
                }
                _ => return Err(format!("the unknown option {option:?}")),
            }
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.mss.map(|mss| format!("mss {mss}")));
        words.extend(self.sack_permitted.then(|| "sackOK".to_owned()));
        words.extend(self.timestamps.map(|(value, echo)| format!("TS val {value} ecr {echo}")));
        words.extend(self.window_scale.map(|shift| format!("nop,wscale {shift}")));
        if !self.sack.is_empty() {
            let blocks: Vec<String> = self.sack.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            words.push(format!("nop,nop,sack {}", blocks.join(" ")));
        }
        write!(f, "{}", words.join(","))
    }
}

fn codepoint(word: &str) -> Result<Ecn, String> {
    let name = word.trim_matches(['[', ']']);
    let found = CODEPOINTS.iter().find(|(word, _)| *word == name);
    found.map(|(_, ecn)| *ecn).ok_or_else(|| format!("{word:?}, which is no ECN codepoint"))
}

fn flags_of(word: &str) -> Result<TcpFlags, String> {
    word.chars().try_fold(TcpFlags::default(), |flags, letter| {
        let found = LETTERS.iter().find(|(one, _)| *one == letter);
        found.map(|(_, bit)| flags | *bit).ok_or_else(|| format!("the flag {letter:?}"))
    })
}

/// Parses `1:1001(1000)`.
fn sequence(word: &str) -> Result<(u64, u32), String> {
    let (numbers, len) = word.split_once('(').ok_or_else(|| format!("sequence numbers {word:?}"))?;
    let (start, end) = range(numbers)?;
    let len = number_in(len.trim_end_matches(')'), 0..=MAX_PAYLOAD)?;
    if start + u64::from(len) != end {
        return Err(format!("{word:?}, where the length is not the difference"));
    }
    Ok((start, len))
}

fn range(word: &str) -> Result<(u64, u64), String> {
    let (start, end) = word.split_once(':').ok_or_else(|| format!("the range {word:?}"))?;
    let (start, end) = (number_in(start, 0..=MAX_SEQUENCE)?, number_in(end, 0..=MAX_SEQUENCE)?);
    if start <= end {
        Ok((start, end))
    } else {
        Err(format!("the range {word:?}, which ends before it starts"))
    }
}

fn number_in<T>(word: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    let (least, most) = (range.start(), range.end());
    match number(word)? {
        number if range.contains(&number) => Ok(number),
        _ => Err(format!("the number {word}: expected {least} to {most}")),
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("the number {word:?}"))
}
