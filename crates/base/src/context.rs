/// What the sending application knows about the bytes it hands over (CATNIP paper, section III-B: a server
/// knows the size of its document). The layout is fixed so that an eBPF program can share it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowContext {
    /// Bytes from the start of the document to its end.
    pub bytes_left: u64,
    /// When the data loses its value, nanoseconds on the sender's clock; 0 means never.
    pub deadline_ns: u64,
    /// RFC 9218 urgency, 0 (most urgent) to 7.
    pub urgency: u8,
    /// RFC 9218 incremental delivery.
    pub incremental: bool,
    /// Zero.
    pub reserved: [u8; 6],
}

impl FlowContext {
    /// The context of a document of which only the size is known.
    pub const fn document(bytes: u64) -> Self {
        Self { bytes_left: bytes, deadline_ns: 0, urgency: 3, incremental: false, reserved: [0; 6] }
    }
}

const _: () = assert!(size_of::<FlowContext>() == 24);
