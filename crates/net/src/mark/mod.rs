//! Markers, which set the priority of packets. Each kind of marker is one file and one entry of [`MarkerSpec`].

mod application;
mod place;
mod service;
mod spm;
mod srtcm;
mod tcp_state;
mod trtcm;

pub use application::{Application, ApplicationSpec};
pub use place::PlaceSpec;
pub use service::Service;
pub use spm::{Spm, SpmParameters};
pub use srtcm::SrtcmSpec;
pub use tcp_state::{TcpState, TcpStateSpec, Threshold};
pub use trtcm::TrtcmSpec;

use crate::{Dscp, Packet, Priority};
use catnip_base::notation::{Custom, Registry};
use catnip_base::{FlowContext, Rng, Time, dispatch, kinds, variants};
use std::fmt::Debug;

/// State of the sender when it sends a packet. A marker inside the network does not have this state and can only use the packet itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderState {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Context of the message, if the application has given one.
    pub context: Option<FlowContext>,
    /// Offset of the packet's data in the message, bytes.
    pub offset: u64,
    /// Size of a full segment, bytes.
    pub segment: u32,
    /// Congestion window, bytes.
    pub window: u64,
    /// Peer's receive window, bytes.
    pub receive_window: u64,
    /// True if the data was sent before.
    pub retransmission: bool,
    /// True if the sender is in a loss recovery that it has entered by duplicate ACKs, not by a timeout.
    pub recovering: bool,
}

/// Kind of a packet of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketKind {
    /// Data or a FIN.
    #[default]
    Data,
    /// Pure ACK, with the priority of the data that it acknowledges; `None` if no data has arrived yet.
    Ack(Option<Priority>),
    /// SYN or SYN-ACK.
    Syn,
}

/// Position of data in a document, and congestion window: the only part of a [`SenderState`] on which the marks of some markers depend. See
/// [`PacketMarker::depends_only_on_position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Offset of the packet's data in its document, bytes.
    pub offset: u64,
    /// Length of the document, bytes, if known.
    pub bytes: Option<u64>,
    /// Congestion window, bytes.
    pub window: u64,
}

/// Marker, which sets the priority of packets as they leave a host or enter a network.
///
/// Example: a marker of pure ACKs.
///
/// ```
/// use catnip_base::Time;
/// use catnip_net::mark::{PacketKind, PacketMarker, SenderState};
/// use catnip_net::{Priority, Dscp, Packet, Route};
///
/// #[derive(Debug)]
/// struct AcksHigh;
///
/// impl PacketMarker for AcksHigh {
///     fn mark(&mut self, _now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
///         let is_ack = sending.is_some_and(|sending| matches!(sending.kind, PacketKind::Ack(_)));
///         if is_ack {
///             packet.dscp = Dscp::assured(1, Priority::High);
///         }
///         is_ack
///     }
/// }
///
/// let mut packet = Packet::new(Time::ZERO, Route::default(), 40, 0);
/// let ack = SenderState { kind: PacketKind::Ack(None), ..SenderState::default() };
/// assert!(AcksHigh.mark(Time::ZERO, Some(&ack), &mut packet));
/// assert_eq!(packet.dscp.priority(), Priority::High);
/// ```
pub trait PacketMarker: Debug + Send {
    /// Marks a packet by its fields and by the state of its sender, which is `None` inside the network. Returns true if the packet was
    /// marked.
    fn mark(&mut self, now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool;
    /// Returns true if the marks of packets with data depend only on the fields of a [`Position`]. The caller then uses
    /// [`mark_of_data_at`](Self::mark_of_data_at) and [`mark_of_handshake`](Self::mark_of_handshake) instead of [`mark`](Self::mark),
    /// without the full state of the sender.
    fn depends_only_on_position(&self) -> bool {
        false
    }
    /// Returns the mark of a packet with data at a position in a document, with segments of `segment` bytes.
    fn mark_of_data_at(&self, _position: &Position, _segment: u32) -> Option<Dscp> {
        None
    }
    /// Returns the mark of a SYN or SYN-ACK; `None` if these packets stay unmarked.
    fn mark_of_handshake(&self) -> Option<Dscp> {
        None
    }
}

/// Kind of marker, from which each end of a connection builds its own marker.
pub trait MarkerKind: Send + Sync {
    /// Type of the marker.
    type Marker;
    /// Builds the marker of one connection of an application with the requirements `service`. A randomized marker takes its random stream
    /// from `rng`.
    fn build(&self, service: Service, rng: &dyn Fn() -> Rng) -> Self::Marker;
    /// Returns true if the marker changes no packet without the state of its sender, and is therefore useless inside the network.
    fn needs_sender(&self) -> bool {
        true
    }
}

macro_rules! markers {
    ($d:tt known { $($Kind:ident($Spec:ty) => $Marker:ty),+ $(,)? } others { $($Other:ident($OtherSpec:ty)),+ $(,)? }) => {
        kinds! {
            /// Configuration of a marker.
            pub enum MarkerSpec { $($Kind($Spec),)+ $($Other($OtherSpec)),+ }
        }

        /// Marker of a sender. Custom markers are boxed, so that they do not increase the cost of the others.
        #[derive(Debug)]
        pub enum AnyMarker {
            /// No marker: packets are not changed.
            None(Unmarked),
            $(#[doc = concat!("See [`", stringify!($Spec), "`].")] $Kind($Marker),)+
            /// Any other marker, behind a thin pointer to keep the state of each connection small.
            Other(Box<Box<dyn PacketMarker>>),
        }

        variants!($d each_kind: MarkerSpec { $($Kind,)+ $($Other),+ });
        variants!($d each_marker: AnyMarker { None, $($Kind,)+ Other });

        impl MarkerKind for MarkerSpec {
            type Marker = AnyMarker;
            fn build(&self, service: Service, rng: &dyn Fn() -> Rng) -> AnyMarker {
                match self {
                    $(Self::$Kind(kind) => AnyMarker::$Kind(kind.build(service, rng)),)+
                    $(Self::$Other(kind) => AnyMarker::Other(Box::new(kind.build(service, rng))),)+
                }
            }
            dispatch! { each_kind:
                fn needs_sender(&self) -> bool;
            }
        }
    };
}

markers! { $
    known {
        Spm(SpmParameters) => Spm,
        Application(ApplicationSpec) => Application,
        TcpState(TcpStateSpec) => Box<TcpState>,
    }
    others {
        Srtcm(SrtcmSpec),
        Trtcm(TrtcmSpec),
        Place(PlaceSpec),
        Custom(Custom<CustomMarker>),
    }
}

impl PacketMarker for AnyMarker {
    dispatch! { each_marker:
        #[inline]
        fn mark(&mut self, now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool;
        #[inline]
        fn depends_only_on_position(&self) -> bool;
        #[inline]
        fn mark_of_data_at(&self, position: &Position, segment: u32) -> Option<Dscp>;
        #[inline]
        fn mark_of_handshake(&self) -> Option<Dscp>;
    }
}

/// Marker that changes no packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmarked;

impl PacketMarker for Unmarked {
    #[inline]
    fn mark(&mut self, _now: Time, _sending: Option<&SenderState>, _packet: &mut Packet) -> bool {
        false
    }
    #[inline]
    fn depends_only_on_position(&self) -> bool {
        true
    }
}

impl Default for AnyMarker {
    fn default() -> Self {
        Self::None(Unmarked)
    }
}

impl MarkerSpec {
    /// Returns the parameters of selective packet marking; `None` for any other marker. Selective packet marking is the only marker that
    /// can also be used without the sender's window, at the edge of a network.
    pub fn spm(&self) -> Option<SpmParameters> {
        if let Self::Spm(parameters) = self { Some(*parameters) } else { None }
    }
}

impl AnyMarker {
    /// Returns true if there is no marker.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }
}

/// Registry of custom markers by name. `markers.add(|marker: MyMarker| Arc::new(marker))` registers a marker; `markers.read(text,
/// MarkerSpec::Custom)` parses the configuration of a marker.
pub type CustomMarkers = Registry<CustomMarker>;

/// Configuration of a custom marker, as a trait object.
pub type CustomMarker = dyn MarkerKind<Marker = Box<dyn PacketMarker>>;

/// Boxed markers forward all calls.
impl<T: PacketMarker + ?Sized> PacketMarker for Box<T> {
    fn mark(&mut self, now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        (**self).mark(now, sending, packet)
    }
    fn depends_only_on_position(&self) -> bool {
        (**self).depends_only_on_position()
    }
    fn mark_of_data_at(&self, position: &Position, segment: u32) -> Option<Dscp> {
        (**self).mark_of_data_at(position, segment)
    }
    fn mark_of_handshake(&self) -> Option<Dscp> {
        (**self).mark_of_handshake()
    }
}
