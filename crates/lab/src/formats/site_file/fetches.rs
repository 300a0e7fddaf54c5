//! Kinds, priorities and milestones of the objects of a recorded page.

use super::HttpVersion;
use catnip_base::keywords;
use catnip_sim::app::{FetchPriority, Milestone, Version};
use serde::{Deserialize, Serialize};

keywords! {
    /// Kind of an object of a page.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ResourceKind {
        /// HTML.
        Document = ("document", "HTML."),
        /// Style sheet.
        Stylesheet = ("stylesheet", "Style sheet."),
        /// Script.
        Script = ("script", "Script."),
        /// Font.
        Font = ("font", "Font."),
        /// Image.
        Image = ("image", "Image."),
        /// Data that a script requests.
        Fetch = ("fetch", "Data that a script requests."),
        /// Video or sound.
        Media = ("media", "Video or sound."),
        /// Other object.
        Other = ("other", "Other object."),
    }
}

keywords! {
    /// Milestone of a page that waits for an object.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Holds {
        /// First rendering.
        Render = ("render", "The first rendering waits for the object."),
        /// Load event.
        Load = ("load", "The load event waits for the object."),
        /// End of the page.
        End = ("end", "The object comes after the load event."),
    }
}

keywords! {
    /// Source of the priorities of objects (RFC 9218).
    #[derive(Default)]
    pub enum Priorities {
        /// Recorded priorities, and where there is none those of Chromium 156 for the kind of the object.
        #[default]
        Chrome = ("chrome", "as recorded, otherwise as Chromium requests objects of the kind"),
        /// Priorities of Firefox 153 for the kinds of objects.
        Firefox = ("firefox", "as Firefox requests objects of the kind"),
        /// No priorities.
        None = ("none", "no priorities: all responses take turns, and requests wait in their order"),
    }
}

impl Holds {
    pub(super) fn milestone(self) -> Milestone {
        match self {
            Self::Render => Milestone::Render,
            Self::Load => Milestone::Load,
            Self::End => Milestone::End,
        }
    }
}

impl Priorities {
    /// Returns the priority of an object with this recorded priority and kind.
    pub(super) fn of(self, recorded: Option<FetchPriority>, kind: Option<ResourceKind>) -> FetchPriority {
        let of_kind = |table: fn(ResourceKind) -> (u8, bool)| {
            let (urgency, incremental) = table(kind.unwrap_or(ResourceKind::Other));
            FetchPriority { urgency, incremental }
        };
        match self {
            Self::Chrome => recorded.unwrap_or_else(|| of_kind(chrome)),
            Self::Firefox => of_kind(firefox),
            Self::None => FetchPriority::IN_TURN,
        }
    }
}

/// Urgency of objects of a kind in Chromium 156, and whether they are incremental, as its requests to a server said: of scripts that block the
/// parser, and of images that are not known to be in view.
fn chrome(kind: ResourceKind) -> (u8, bool) {
    match kind {
        ResourceKind::Document => (0, true),
        ResourceKind::Stylesheet | ResourceKind::Font => (0, false),
        ResourceKind::Script => (1, false),
        ResourceKind::Fetch => (1, true),
        ResourceKind::Image | ResourceKind::Media => (3, true),
        ResourceKind::Other => (3, true),
    }
}

/// Urgency of objects of a kind in Firefox 153, and whether they are incremental.
fn firefox(kind: ResourceKind) -> (u8, bool) {
    match kind {
        ResourceKind::Document => (0, true),
        ResourceKind::Stylesheet | ResourceKind::Script => (2, false),
        ResourceKind::Font => (3, false),
        ResourceKind::Image => (5, true),
        ResourceKind::Fetch | ResourceKind::Media | ResourceKind::Other => (4, false),
    }
}

/// Returns true if Chromium requests objects of a kind as incremental.
pub(crate) fn is_incremental(kind: ResourceKind) -> bool {
    chrome(kind).1
}

/// Parses the value of a `priority` header; `None` if it is none. Unknown parameters are ignored (RFC 9218, section 4).
pub(crate) fn parse_priority(text: &str) -> Option<FetchPriority> {
    let mut priority = FetchPriority::DEFAULT;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("u", urgency)) => {
                priority.urgency = urgency.parse().ok().filter(|urgency| (0..=7).contains(urgency))?;
            }
            None if part == "i" => priority.incremental = true,
            Some(("i", "?1")) => priority.incremental = true,
            Some(("i", "?0")) => priority.incremental = false,
            Some((name, _)) if name != "i" => {}
            _ => return None,
        }
    }
    Some(priority)
}

/// Returns the version of HTTP of an origin whose responses came over these: that of most of them, otherwise what browsers do with TLS or
/// without it.
pub(super) fn version_of(recorded: impl Iterator<Item = HttpVersion>, has_tls: bool) -> Version {
    let (mut old, mut new) = (0_u32, 0_u32);
    for version in recorded {
        *if version == HttpVersion::Http1 { &mut old } else { &mut new } += 1;
    }
    let is_new = if old == new { has_tls } else { new > old };
    if is_new { Version::Http2 } else { Version::Http1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_read_as_rfc_9218_writes_it() {
        let read = |text| parse_priority(text).map(|it| (it.urgency, it.incremental));
        let cases = [("u=0, i", Some((0, true))), ("i", Some((3, true))), ("u=5", Some((5, false)))];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read(""), Some((3, false)), "the default of section 4");
        assert_eq!(read("u=2,x=7,i=?0"), Some((2, false)), "unknown parameters are ignored");
        for wrong in ["u=8", "u=-1", "u", "i=2", "x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_origin_has_the_version_of_most_of_its_responses_and_otherwise_what_browsers_do() {
        use HttpVersion::{Http1, Http2, Http3};
        let of = |recorded: &[HttpVersion], tls| version_of(recorded.iter().copied(), tls);
        assert_eq!(of(&[Http1, Http2, Http3], false), Version::Http2, "HTTP/3 counts as HTTP/2");
        assert_eq!(of(&[Http1, Http1, Http2], true), Version::Http1);
        assert_eq!([of(&[], true), of(&[], false)], [Version::Http2, Version::Http1]);
    }
}
