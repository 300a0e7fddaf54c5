use crate::formats::link_profile::LinkProfile;
use crate::formats::site_file::Priorities;
use catnip_base::Distribution;
use catnip_base::notation::{Family, Usage};
use catnip_net::jitter::JitterSpec;
use catnip_net::mark::{CustomMarkers, MarkerSpec};
use catnip_net::queue::{CustomQueues, QueueSpec};
use catnip_net::shape::RateSpec;
use catnip_net::stage::{CustomStages, StageSpec};
use catnip_net::{ArqSpec, DelaySpec, OutageSpec};
use catnip_sim::app::{Handshake, RateRule};
use catnip_tcp::EcnKind;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::control::{ControlSpec, CustomControls};
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;

/// Custom kinds of components that a scenario may name in addition to the built-in ones.
#[derive(Default)]
pub struct Kinds {
    /// Custom queues of links.
    pub queues: CustomQueues,
    /// Custom losses and other stages of links.
    pub stages: CustomStages,
    /// Custom congestion controllers.
    pub controls: CustomControls,
    /// Custom markers of senders.
    pub markers: CustomMarkers,
}

/// Returns the families of built-in kinds, such as queues and markers, with the notation and the description of each kind.
pub fn built_in() -> [(&'static str, Vec<Usage>); 18] {
    [
        ("queues", QueueSpec::usages()),
        ("losses", StageSpec::usages()),
        ("rates", RateSpec::USAGE.to_vec()),
        ("delays", DelaySpec::USAGE.to_vec()),
        ("jitters", JitterSpec::usages()),
        ("outages", OutageSpec::USAGE.to_vec()),
        ("link layers", ArqSpec::usages()),
        ("recoveries", RecoveryKind::usages()),
        ("controls", ControlSpec::usages()),
        ("pacings", PacingKind::usages()),
        ("validations", ValidationSpec::usages()),
        ("congestion marks", EcnKind::usages()),
        ("markers", MarkerSpec::usages()),
        ("video rules", RateRule::usages()),
        ("handshakes", Handshake::usages()),
        ("priorities", Priorities::usages()),
        ("link profiles", LinkProfile::usages()),
        ("distributions", Distribution::usages()),
    ]
}
