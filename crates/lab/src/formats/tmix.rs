//! Traces of connections as Tmix writes them down: connection vectors (Weigle et al., ACM CCR 36(3), 2006), in both forms that
//! ns-2 reads ("The ns Manual", chapter "Tmix: Internet Traffic Generation").
//!
//! Times are in microseconds, sizes in bytes. What stands behind a `#` is a comment. Each connection has a header:
//!
//! | line | holds |
//! |---|---|
//! | `SEQ start epochs id id` (original), `S ...` (alternate) | a sequential one |
//! | `CONC start initiator_adus acceptor_adus id id`, `C ...` | a concurrent one |
//! | `m initiator acceptor` | maximum segment sizes |
//! | `w initiator acceptor` | windows |
//! | `r rtt` | the shortest round trip |
//! | `l to_acceptor to_initiator` | shares of packets lost |
//!
//! Then, in the original form, what is said: `>` and `<` with a size, by the initiator and the acceptor, and between two of them
//! `t` with a wait; in concurrent ones `c>`, `c<`, `t>` and `t<`. A wait at the end is one before a FIN. In the alternate form
//! each line has both waits: `I send_wait receive_wait size` and `A send_wait receive_wait size`; a size of 0 is a FIN.
//!
//! As with ns-2, a wait of 0 between two ADUs counts as a microsecond, because 0 is how the alternate form says that there is
//! no wait of this kind.

mod read;
mod write;

pub use catnip_sim::app::{Adu, After, ConnectionVector, Observed, Order, Side};
pub use read::{Mistake, load, read};
pub use write::write;

use catnip_base::words;

words! {
    /// How vectors are written down.
    pub enum Form {
        /// `SEQ`, `>`, `t`, `<`.
        Original = ("original", "ADUs and waits on lines of their own, as first published."),
        /// `S`, `I`, `A`.
        Alternate = ("alternate", "Each ADU with both its waits: what ns-2 and ns-3 read fastest."),
    }
}

#[cfg(test)]
mod tests;
