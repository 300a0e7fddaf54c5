/// Information about its data that the sending application provides (CATNIP paper, section III-B: the size of a document is known at its
/// server). The layout is fixed so that an eBPF program can share it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowContext {
    /// Bytes from the start of the document to its end.
    pub bytes_left: u64,
    /// Deadline after which the data loses its value, nanoseconds on the sender's clock; 0 means no deadline.
    pub deadline_ns: u64,
    /// Urgency (RFC 9218), 0 (most urgent) to 7.
    pub urgency: u8,
    /// Incremental delivery (RFC 9218): true if the receiver can process parts of the data.
    pub incremental: bool,
    /// Reserved bytes, which are zero.
    pub reserved: [u8; 6],
}

impl FlowContext {
    /// Creates the context of a document of `bytes` bytes without further information.
    pub const fn document(bytes: u64) -> Self {
        Self { bytes_left: bytes, deadline_ns: 0, urgency: 3, incremental: false, reserved: [0; 6] }
    }
}

const _: () = assert!(size_of::<FlowContext>() == 24);
