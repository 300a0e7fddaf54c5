use crate::Priority;
use catnip_base::keywords;

keywords! {
    /// Requirements of an application on the network, from which the defaults of markers follow (Noureddine and Tobagi, "Improving the
    /// performance of interactive TCP applications using service differentiation", 2002, sections V and VI).
    #[derive(Default)]
    pub enum Service {
        /// Highly interactive application such as Telnet: a user waits for each packet.
        Highly = ("highly-interactive", "HIGH, class 1"),
        /// Interactive application such as the Web: a user waits for a document.
        Interactive = ("interactive", "MED, or by the window, class 2"),
        /// Application such as a long file transfer: no user waits.
        #[default]
        Other = ("other", "LOW, or by the window, class 3"),
    }
}

impl Service {
    /// Returns the class at an output scheduler, which is also the assured forwarding class.
    pub fn class(self) -> u8 {
        match self {
            Self::Highly => 1,
            Self::Interactive => 2,
            Self::Other => 3,
        }
    }

    /// Returns the drop precedence in marking by application (section V).
    pub fn priority(self) -> Priority {
        match self {
            Self::Highly => Priority::High,
            Self::Interactive => Priority::Medium,
            Self::Other => Priority::Low,
        }
    }
}
