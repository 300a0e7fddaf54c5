use crate::Colour;
use catnip_base::words;

words! {
    /// What an application needs of the network, from which its defaults follow (Noureddine and Tobagi, "Improving the
    /// performance of interactive TCP applications using service differentiation", 2002, sections V and VI).
    #[derive(Default)]
    pub enum Service {
        /// Each packet is waited for by a person, as with Telnet.
        Highly = ("highly-interactive", "HIGH, class 1"),
        /// A document is waited for, as with the Web.
        Interactive = ("interactive", "MED or by the window, class 2"),
        /// Nobody waits, as with long file transfers.
        #[default]
        Other = ("other", "LOW or by the window, class 3"),
    }
}

impl Service {
    /// Its class at an output scheduler, and its assured forwarding class.
    pub fn class(self) -> u8 {
        match self {
            Self::Highly => 1,
            Self::Interactive => 2,
            Self::Other => 3,
        }
    }

    /// Its drop precedence where applications are marked (section V).
    pub fn colour(self) -> Colour {
        match self {
            Self::Highly => Colour::Green,
            Self::Interactive => Colour::Yellow,
            Self::Other => Colour::Red,
        }
    }
}
