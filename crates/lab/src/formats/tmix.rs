//! Traces of connections in the format of Tmix: connection vectors (Weigle et al., ACM CCR 36(3), 2006), in both forms that
//! ns-2 reads ("The ns Manual", chapter "Tmix: Internet Traffic Generation").
//!
//! Times are in microseconds, sizes in bytes. A `#` starts a comment. Each connection has a header:
//!
//! | line | contents |
//! |---|---|
//! | `SEQ start epochs id id` (original), `S ...` (alternate) | start of a sequential connection |
//! | `CONC start initiator_adus acceptor_adus id id`, `C ...` | start of a concurrent connection |
//! | `m initiator acceptor` | maximum segment sizes |
//! | `w initiator acceptor` | windows |
//! | `r rtt` | minimum round-trip time |
//! | `l to_acceptor to_initiator` | loss rates |
//!
//! The application data units (ADUs) follow. In the original form, `>` and `<` give the size of an ADU of the initiator and the acceptor,
//! and `t` between two ADUs gives a waiting time; a concurrent connection has `c>`, `c<`, `t>` and `t<`. A waiting time at the end precedes
//! a FIN. In the alternate form, each line has both waiting times: `I send_wait receive_wait size` and `A send_wait receive_wait size`; a
//! size of 0 is a FIN.
//!
//! As with ns-2, a waiting time of 0 between two ADUs counts as a microsecond, because 0 in the alternate form means that there is no
//! waiting time of this kind.

mod read;
mod write;

pub use catnip_sim::app::{Adu, After, ConnectionVector, Observed, Order, Side};
pub use read::{ReadError, read};
pub use write::write;

use catnip_base::keywords;

keywords! {
    /// Form of connection vectors.
    pub enum Form {
        /// Original form: `SEQ`, `>`, `t`, `<`.
        Original = ("original", "ADUs and waits on separate lines, as first published."),
        /// Alternate form: `S`, `I`, `A`.
        Alternate = ("alternate", "Each ADU with both waits on one line, the fastest form for ns-2 and ns-3."),
    }
}

#[cfg(test)]
mod tests;
