//! Random cases, and the scripts that they become.
//!
//! A case is a connection over a path: what the application writes, what its peer sends, and what happens to single packets. A simulated
//! host goes through it, and the script has what arrived at the host, as its input, and what the host sent, as the expectation.

use crate::packet::Packet;
use crate::peer::{Habits, Peer};
use crate::script::{self, Call, Event, Field, Line, Script};
use crate::simulated::Host;
use catnip_base::{Rng, Span, Stream, Time};
use catnip_net::Ecn;
use catnip_wire::{TIMESTAMPS_LEN, TcpFlags};
use std::collections::BTreeMap;

/// Connection over a path, as data.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name of the congestion control, by the kernel.
    pub control: &'static str,
    /// Whether the peer announces timestamps.
    pub timestamps: bool,
    /// Whether both ends use ECN.
    pub ecn: bool,
    /// Whether Nagle's algorithm is off.
    pub no_delay: bool,
    /// Whether the host opens the connection.
    pub is_active: bool,
    /// Maximum segment size, bytes.
    pub mss: u16,
    /// Time over the path and back.
    pub round_trip: Span,
    /// Number of segments that the peer acknowledges at once.
    pub ack_every: u32,
    /// Window fields of the peer, each from the packet with this number on, in units of four bytes.
    pub windows: BTreeMap<u32, u16>,
    /// Writes of the host's application: the time after the start, and the number of bytes.
    pub writes: Vec<(Span, u64)>,
    /// Whether the host's application ends its data with the last write.
    pub closes: bool,
    /// Data of the peer: the time at which a segment leaves, its first byte (from 0), and its length.
    pub data: Vec<(Span, u64, u32)>,
    /// Fates of single packets: of the host if true, of the peer if false, and the number of the packet from 0.
    pub fates: BTreeMap<(bool, u32), Fate>,
}

/// Fate of a packet on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It takes longer, so that later packets may overtake it.
    Late(Span),
    /// It arrives twice, the second time later.
    Twice(Span),
    /// It is marked, if it can be (CE).
    Marked,
}

/// Time from the start of a script to the opening of the connection.
const OPENING: Span = Span::from_millis(1);
/// Time that the path needs for a packet.
const SERIALIZATION: Span = Span::from_micros(200);
/// Time that the path needs for a segment of the peer, with which no arrival meets the end of a compression of SACKs.
const DATA_SERIALIZATION: Span = Span::from_micros(800);
/// Shift count of the peer's windows.
const SCALE: u8 = 2;
/// Limits of a script: its time and its lines.
const LONGEST: Time = Time::from_nanos(4_000_000_000);
const MOST_LINES: usize = 600;
/// Time by which a timer of the kernel may be late: a tick and a level of its wheel (kernel/time/timer.c at 250 Hz), and the time of a
/// short and a long one.
const TICK: Span = Span::from_millis(8);
const WHEEL: Span = Span::from_millis(36);
const LONG_TIMER: Span = Span::from_millis(240);

impl Case {
    /// Draws case number `number` of a seed.
    pub fn random(seed: u64, number: u32) -> Self {
        let mut rng = Rng::new(seed, Stream::Workload(number));
        let ms = Span::from_millis;
        let round_trip = ms(pick(&mut rng, &[12, 24, 40, 60, 100, 150, 220]));
        let mss = pick(&mut rng, &[1000, 1460]);
        let sends = rng.chance(0.8);
        let mut at = ms(0);
        let mut writes = Vec::new();
        for _ in 0..if sends { 1 + rng.below(4) } else { rng.below(2) } {
            let gaps = [ms(0), ms(1), round_trip, round_trip * 3, ms(350), ms(900)];
            at += pick(&mut rng, &gaps) + Span::from_micros(130);
            let bytes = pick(&mut rng, &[1, 100, 700, 2000, 5000, 10_000, 20_000, 40_000]);
            writes.push((at, bytes));
        }
        let mut data = Vec::new();
        if !sends || rng.chance(0.15) {
            data = peer_data(&mut rng, mss, round_trip);
            // Segments with data and SACK blocks are shorter in the kernel.
            writes.iter_mut().for_each(|(_, bytes)| *bytes = (*bytes).min(300));
        }
        let (ecn, timestamps) = (rng.chance(0.2), rng.chance(0.5));
        let mut windows = BTreeMap::from([(0, u16::MAX)]);
        if rng.chance(0.15) {
            // Whole segments.
            let segment = u32::from(mss) - if timestamps { TIMESTAMPS_LEN } else { 0 };
            windows.insert(1, ((pick(&mut rng, &[4, 10, 16, 25]) * segment) >> SCALE) as u16);
            if rng.chance(0.5) {
                windows.insert(8 + rng.below(20), u16::MAX);
            }
        }
        Self {
            control: if rng.chance(0.5) { "cubic" } else { "reno" },
            timestamps,
            ecn,
            no_delay: rng.chance(0.5),
            is_active: rng.chance(0.3),
            mss,
            round_trip,
            ack_every: 1 + rng.below(2),
            windows,
            closes: !writes.is_empty() && rng.chance(0.4),
            writes,
            data,
            fates: fates(&mut rng, round_trip, ecn),
        }
    }

    /// Returns the script of the case. An error says what the simulated host cannot do.
    pub fn script(&self) -> Result<Script, String> {
        Run::new(self)?.go()
    }

    /// Returns simpler cases, the simplest first.
    pub fn simpler(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        let half = self.fates.len() / 2;
        if half > 1 {
            for keeps_first in [true, false] {
                let part = self.fates.iter().enumerate().filter(|(at, _)| (*at < half) == keeps_first);
                cases.push(Self {
                    fates: part.map(|(_, (key, fate))| (*key, *fate)).collect(),
                    ..self.clone()
                });
            }
        }
        for key in self.fates.keys() {
            let mut fates = self.fates.clone();
            fates.remove(key);
            cases.push(Self { fates, ..self.clone() });
        }
        for at in 0..self.writes.len() {
            cases.push(Self { writes: without(&self.writes, at), ..self.clone() });
        }
        if !self.data.is_empty() {
            cases.push(Self { data: Vec::new(), ..self.clone() });
            for at in 0..self.data.len() {
                cases.push(Self { data: without(&self.data, at), ..self.clone() });
            }
        }
        cases.push(Self { closes: false, ..self.clone() });
        cases.push(Self { timestamps: false, ..self.clone() });
        cases.push(Self { ecn: false, ..self.clone() });
        cases.push(Self { is_active: false, ..self.clone() });
        cases.push(Self { ack_every: 1, ..self.clone() });
        cases.push(Self { control: "reno", ..self.clone() });
        cases.push(Self { windows: BTreeMap::from([(0, u16::MAX)]), ..self.clone() });
        for at in 0..self.writes.len() {
            let mut writes = self.writes.clone();
            writes[at].1 = (writes[at].1 / 2).max(1);
            cases.push(Self { writes, ..self.clone() });
        }
        cases.retain(|case| case != self);
        cases
    }
}

/// Returns all items but that at `at`.
fn without<T: Clone>(items: &[T], at: usize) -> Vec<T> {
    let mut items = items.to_vec();
    items.remove(at);
    items
}

/// Draws one of several values.
fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u32) as usize]
}

/// Draws data of the peer: segments with losses that are sent again, others that overtake, short ones, and pauses.
fn peer_data(rng: &mut Rng, mss: u16, round_trip: Span) -> Vec<(Span, u64, u32)> {
    let ms = Span::from_millis;
    let (mut at, mut first) = (round_trip + ms(u64::from(rng.below(50))), 0);
    let mut data = Vec::new();
    for _ in 0..1 + rng.below(40) {
        let len = if rng.chance(0.85) { u32::from(mss) - TIMESTAMPS_LEN } else { 1 + rng.below(600) };
        // Its path is late, or it is sent again after a loss.
        let late = match rng.below(12) {
            0 => ms(u64::from(4 + rng.below(8))),
            1 => round_trip,
            _ => Span::ZERO,
        };
        data.push((at + late, first, len));
        if rng.chance(0.03) {
            data.push((at + late + ms(5), first, len));
        }
        first += u64::from(len);
        at += match rng.below(20) {
            0 => round_trip,
            1 => ms(450),
            2..8 => ms(0),
            _ => ms(u64::from(3 + rng.below(5))),
        };
    }
    data.sort_by_key(|(at, ..)| *at);
    data
}

/// Draws fates of packets.
fn fates(rng: &mut Rng, round_trip: Span, ecn: bool) -> BTreeMap<(bool, u32), Fate> {
    let mut fates = BTreeMap::new();
    let [lost, late, twice] = [0.05, 0.05, 0.01]
        .map(|share| if rng.chance(0.5) { share * f64::from(1 + rng.below(3)) } else { 0.0 });
    let [acks_lost, acks_late] = [0.1, 0.05].map(|share| if rng.chance(0.3) { share } else { 0.0 });
    let marked = if ecn && rng.chance(0.7) { 0.05 } else { 0.0 };
    let handshake = rng.chance(0.15);
    for number in 0..200 {
        for of_host in [true, false] {
            if number < 2 && !(handshake && rng.chance(0.3)) {
                continue;
            }
            let [lost, late] = if of_host { [lost, late] } else { [acks_lost, acks_late] };
            let by = round_trip * u64::from(1 + rng.below(8)) / 4;
            let fate = match () {
                () if rng.chance(lost) => Fate::Lost,
                () if rng.chance(late) => Fate::Late(by),
                () if of_host && rng.chance(twice) => Fate::Twice(by),
                () if rng.chance(marked) => Fate::Marked,
                () => continue,
            };
            fates.insert((of_host, number), fate);
        }
    }
    // A burst of losses, sometimes at the end.
    if rng.chance(0.25) {
        let first = 3 + rng.below(25);
        fates.extend((first..first + 2 + rng.below(6)).map(|number| ((true, number), Fate::Lost)));
    }
    fates
}

/// Event of a run.
#[derive(Clone, Debug, PartialEq)]
enum What {
    Call(Call),
    ToHost(Packet),
    ToPeer(Packet),
    /// The peer's delayed ACK is due, or its data.
    Peer,
}

struct Run<'a> {
    case: &'a Case,
    host: Host,
    peer: Peer,
    /// Events by their time, and in the order of their scheduling.
    events: BTreeMap<(Time, u32), What>,
    scheduled: u32,
    /// Packets so far of the peer and of the host.
    packets: [u32; 2],
    /// Time from which on a packet of the peer or of the host can arrive.
    path_free: [Time; 2],
    /// Packets of the host that are lines already.
    sent: usize,
    script: Script,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case) -> Result<Self, String> {
        let options = script::Options { ecn: case.ecn, ..script::Options::default() };
        let habits = Habits {
            is_active: case.is_active,
            ecn: case.ecn,
            mss: case.mss,
            timestamps: case.timestamps,
            scale: SCALE,
            ack_every: case.ack_every,
        };
        let peer = Peer::new(habits, &case.data);
        let syn = peer.syn();
        let mut run = Self {
            case,
            host: Host::new(&options, &syn)?,
            peer,
            events: BTreeMap::new(),
            scheduled: 0,
            packets: [0; 2],
            path_free: [Time::ZERO; 2],
            sent: 0,
            script: Script { options, lines: Vec::new() },
        };
        for call in [
            Call::Socket,
            Call::Congestion(case.control.into()),
            Call::Nothing("bind(3, ..., ...) = 0".into()),
        ] {
            run.step(Time::ZERO, Event::Call(call))?;
        }
        let start = Time::ZERO + OPENING;
        if case.is_active {
            run.at(start, What::Call(Call::Connect));
        } else {
            run.step(Time::ZERO, Event::Call(Call::Listen))?;
            run.send(start, syn, false);
        }
        Ok(run)
    }

    fn go(mut self) -> Result<Script, String> {
        let mut is_open = false;
        loop {
            let next = self.events.first_key_value().map(|(key, _)| key.0);
            let own = self.host.deadline().filter(|at| next.is_none_or(|next| *at <= next));
            let Some(now) = own.or(next).filter(|at| *at <= LONGEST && self.script.lines.len() < MOST_LINES)
            else {
                break;
            };
            if own.is_some() {
                self.host.advance(now);
                self.take(now, true);
                continue;
            }
            let Some((_, what)) = self.events.pop_first() else { break };
            match what {
                What::Call(call) => self.step(now, Event::Call(call))?,
                What::ToHost(packet) => {
                    let opens = !is_open && packet.has(TcpFlags::ACK);
                    self.step(now, Event::Receive(packet))?;
                    self.assert_windows(now)?;
                    if opens {
                        is_open = true;
                        self.on_open(now)?;
                    }
                }
                What::ToPeer(packet) => {
                    self.peer.receive(now, &packet);
                    self.poll_peer(now);
                }
                What::Peer => self.poll_peer(now),
            }
        }
        Ok(self.script)
    }

    /// Starts the applications of both ends, because the connection is open.
    fn on_open(&mut self, now: Time) -> Result<(), String> {
        if !self.case.is_active {
            self.step(now, Event::Call(Call::Accept))?;
        }
        if self.case.no_delay {
            self.step(now, Event::Call(Call::NoDelay))?;
        }
        for &(after, bytes) in &self.case.writes {
            self.at(now + after, What::Call(Call::Write(bytes)));
        }
        if let Some((after, _)) = self.case.writes.last().filter(|_| self.case.closes) {
            self.at(now + *after, What::Call(Call::Close));
        }
        self.peer.open(now);
        for &(after, ..) in &self.case.data {
            self.at(now + after, What::Peer);
        }
        Ok(())
    }

    fn at(&mut self, at: Time, what: What) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), what);
    }

    fn poll_peer(&mut self, now: Time) {
        while let Some(packet) = self.peer.transmit(now) {
            self.send(now, packet, false);
        }
        if let Some(at) = self.peer.deadline().filter(|at| *at > now) {
            self.at(at, What::Peer);
        }
    }

    fn step(&mut self, now: Time, event: Event) -> Result<(), String> {
        self.host.step(now, &event)?;
        self.line(now, now, event);
        self.take(now, false);
        Ok(())
    }

    /// Asserts the windows of a sender that has begun.
    fn assert_windows(&mut self, now: Time) -> Result<(), String> {
        for field in [Field::Cwnd, Field::Ssthresh] {
            if let Some(value) = self.host.value(field) {
                self.step(now, Event::Assert(field, value))?;
            }
        }
        Ok(())
    }

    fn line(&mut self, from: Time, until: Time, event: Event) {
        let number = self.script.lines.len() + 1;
        self.script.lines.push(Line { number, from, until, event });
    }

    /// Takes what the host has sent to lines and to the path. The transmissions of a timer may come later, by the wheel of the kernel's timers.
    fn take(&mut self, now: Time, by_timer: bool) {
        let new = self.host.record().sent[self.sent..].to_vec();
        self.sent += new.len();
        let last = self.script.lines.last().map_or(Time::ZERO, |line| line.from);
        for (at, packet) in new {
            let late = match by_timer {
                true if now.since(last) >= LONG_TIMER => WHEEL,
                true => TICK,
                false => Span::ZERO,
            };
            self.line(at, at + late, Event::Send(packet.clone()));
            self.send(at, packet, true);
        }
    }

    /// Puts a packet on the path.
    fn send(&mut self, now: Time, mut packet: Packet, of_host: bool) {
        let number = &mut self.packets[usize::from(of_host)];
        let fate = self.case.fates.get(&(of_host, *number)).copied();
        *number += 1;
        if !of_host {
            let window = self.case.windows.range(..=self.packets[0]).next_back().map(|(_, window)| *window);
            // The window of a SYN is not scaled.
            packet.window = window.filter(|_| !packet.has(TcpFlags::SYN)).or(Some(u16::MAX));
        }
        // Packets arrive one after the other, so that no order depends on a tie.
        let free = &mut self.path_free[usize::from(of_host)];
        let arrival = (now + self.case.round_trip / 2).max(*free);
        *free = arrival + if !of_host && packet.len > 0 { DATA_SERIALIZATION } else { SERIALIZATION };
        let what = |packet: Packet| if of_host { What::ToPeer(packet) } else { What::ToHost(packet) };
        match fate {
            Some(Fate::Lost) => {}
            Some(Fate::Late(by)) => self.at(arrival + by, what(packet)),
            Some(Fate::Twice(by)) => {
                self.at(arrival, what(packet.clone()));
                self.at(arrival + by, what(packet));
            }
            Some(Fate::Marked) if packet.ecn.is_some_and(|ecn| ecn != Ecn::NOT_ECT) => {
                packet.ecn = Some(Ecn::CE);
                self.at(arrival, what(packet));
            }
            Some(Fate::Marked) | None => self.at(arrival, what(packet)),
        }
    }
}
