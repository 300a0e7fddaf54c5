//! Emulated link between two existing Ethernet interfaces, which runs until a signal arrives.

use crate::codec::check_no_ecn;
use crate::control::Control;
use crate::datapath::ethernet::{Ethernet, MAX_HEADER};
use crate::datapath::frames::Routing;
use crate::datapath::gateways::{Emulator, Gateway, Gateways};
use crate::link::{CONTROL_FD, LinkSpec, LinkTopology, Outcome};
use crate::timing::Timing;
use catnip_base::{Span, Time};
use catnip_cli::failure::{Failure, failed};
use catnip_linux::clock::{Clock, Stopwatch, WallClock};
use catnip_linux::netlink::{Device, Netlink};
use catnip_linux::sys::Signals;
use catnip_sim::Watch;
use std::io;
use std::os::fd::AsFd;

/// Configuration of a router, which emulates a link between two interfaces.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Name of the interface at which packets enter the direction up.
    pub inside: String,
    /// Name of the interface at which packets leave the direction up.
    pub outside: String,
    /// Link between the interfaces.
    pub link: LinkSpec,
    /// Interval of the reports; `None` for no reports.
    pub report: Option<Span>,
}

/// Emulator of a link between two Ethernet interfaces.
pub type RunningRouter<W> = Emulator<WallClock, Ethernet, (), W>;

/// Interval of checks whether the interfaces still exist.
const CHECK_INTERVAL: Span = Span::from_secs(1);

/// Emulates the link until SIGINT, SIGTERM or SIGHUP. `watch` creates the watch that receives every packet. It is called when these signals
/// are blocked, and may start threads. `report` receives the outcome so far at the configured interval. It must return quickly, since it
/// delays packets.
pub fn run<W: Watch>(
    setup: &Setup,
    control: &mut Control,
    watch: impl FnOnce(&LinkTopology, Stopwatch) -> Result<W, Failure>,
    mut report: impl FnMut(&RunningRouter<W>, &Outcome),
) -> Result<(Outcome, RunningRouter<W>), Failure> {
    check_no_ecn(setup.link.codec)?;
    let mut netlink = Netlink::open().map_err(failed("network", "open a netlink socket"))?;
    if setup.inside == setup.outside {
        return Err(Failure::new("--outside", "the same interface as --inside; expected another one"));
    }
    let inside = interface(&mut netlink, "--inside", &setup.inside)?;
    let outside = interface(&mut netlink, "--outside", &setup.outside)?;
    let stop = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    let signals = Signals::new(&stop).map_err(failed("signals", "open a signalfd"))?;
    let stopwatch = Stopwatch::start();
    let [up, down] = &setup.link.wires;
    let link = LinkTopology::new(up, down);
    let watch = watch(&link, stopwatch)?;
    let [inside_io, outside_io] =
        [(&inside, &setup.inside), (&outside, &setup.outside)].map(|(device, name)| {
            Ethernet::open(device.index, stopwatch).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    Failure::new("permission", "cannot open packet sockets; run as root")
                }
                _ => Failure::new(name, format!("cannot open the interface: {error}")),
            })
        });
    let (inside_io, outside_io) = (inside_io?, outside_io?);
    control.bind();
    control.listen()?;
    let descriptors = [signals.as_fd(), inside_io.as_fd(), outside_io.as_fd()];
    let watched = descriptors.into_iter().chain(control.as_fd());
    let Timing { clock, timing_mode } = Timing::new(stopwatch, setup.link.timing, watched);
    let gateways = Gateways::new(
        clock,
        vec![Gateway { io: inside_io, node: link.inside }, Gateway { io: outside_io, node: link.outside }],
    );
    let routing = Routing { bridge: Some([link.inside, link.outside]), ..Routing::default() };
    let max_frame = inside.mtu.max(outside.mtu) as usize + MAX_HEADER;
    let mut emulator = link.emulator(&setup.link, gateways, routing, max_frame, watch);

    let outcome = |emulator: &mut RunningRouter<W>| {
        let (mut missed, mut broken) = ([0; 2], [0; 2]);
        for (index, gateway) in emulator.gateways_mut().iter_mut().enumerate() {
            (missed[index], broken[index]) = (gateway.io.missed(), gateway.io.broken());
        }
        Outcome { missed, broken, ..link.outcome(emulator, timing_mode) }
    };
    let (mut check_at, mut report_at) = (Time::ZERO + CHECK_INTERVAL, Time::NEVER);
    if let Some(interval) = setup.report {
        report_at = Time::ZERO + interval;
    }
    let early_end = loop {
        control.apply_due(link.ports, &mut emulator);
        let next = match emulator.poll().map_err(failed("router", "read an interface")) {
            Ok(next) => next,
            Err(failure) => break Some(failure),
        };
        emulator.sleep_until(next.min(check_at).min(report_at).min(control.next_at()));
        if control.as_fd().is_some() && emulator.clock().is_ready(CONTROL_FD) {
            control.apply_request(link.ports, &mut emulator);
        }
        let now = emulator.clock().now();
        if now >= report_at {
            // Reports whose time has passed are skipped.
            while report_at <= now {
                report_at += setup.report.unwrap_or(CHECK_INTERVAL);
            }
            let so_far = outcome(&mut emulator);
            report(&emulator, &so_far);
        }
        if now >= check_at {
            check_at = now + CHECK_INTERVAL;
            let mut interfaces = [(&setup.inside, inside.index), (&setup.outside, outside.index)].into_iter();
            if let Some((name, _)) =
                interfaces.find(|(name, index)| netlink.index_of(name).ok() != Some(*index))
            {
                break Some(Failure::new(name, "the interface no longer exists"));
            }
        }
        if emulator.clock().is_ready(0) && signals.next().is_some() {
            break emulator.finish().map_err(failed("router", "read an interface")).err();
        }
    };
    let outcome = Outcome { early_end, changes: control.changes(), ..outcome(&mut emulator) };
    Ok((outcome, emulator))
}

fn interface(netlink: &mut Netlink, key: &str, name: &str) -> Result<Device, Failure> {
    let failure = |problem: &str| Err(Failure::new(key, format!("{name}: {problem}")));
    match netlink.device(name) {
        Err(_) => failure("there is no such interface"),
        Ok(device) if !device.ethernet => failure("not an Ethernet interface"),
        Ok(device) if device.has_controller => {
            failure("part of a bridge or a similar device; remove it from there (ip link set NAME nomaster)")
        }
        Ok(device) if !device.up => failure("the interface is down; bring it up (ip link set NAME up)"),
        Ok(device) => Ok(device),
    }
}
