//! Messages of the allocation socket. Instrumented TT-Metal builds send them, and monitors query with them. This is a pure codec.
//!
//! All messages use one packed little-endian struct in four sizes. A stream does not state its size, so [`Framing`] determines it. The
//! contents of a request are in its first 40 bytes, which are the same in all sizes. The other bytes are zero:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 + 3 | type; zero |
//! | 4 | 4 | device id, signed; -1 requests the number of devices |
//! | 8 | 8 | size in bytes |
//! | 16 | 1 + 3 | TT-Metal's buffer type, or the kernel's; zero |
//! | 20 | 4 | pid in the sender's namespace, signed |
//! | 24 | 8 + 8 | address or other number; time in ns since 1970 |
//!
//! A reply has its figures after byte 40, at offsets that depend on the size. See [`Usage`] and [`DeviceInfo`].

mod framing;
#[cfg(test)]
mod tests;

pub use framing::{Framing, Malformed, Step, Wait};

/// Number of bytes of a request that have contents.
pub const HEADER_BYTES: usize = 40;
/// Length of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 144;

/// Length of the messages of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Size {
    /// 72 bytes: types 1 to 5.
    B72 = 72,
    /// 112 bytes: types 1 to 7.
    B112 = 112,
    /// 128 bytes: types 1 to 11.
    B128 = 128,
    /// 144 bytes: all types.
    B144 = 144,
}

impl Size {
    /// All sizes, shortest first.
    pub const ALL: [Self; 4] = [Self::B72, Self::B112, Self::B128, Self::B144];

    /// Returns the number of bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// Returns the size with that many bytes.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.bytes() == bytes)
    }

    /// Returns whether this size supports messages of that type.
    pub const fn has(self, kind: Type) -> bool {
        self.bytes() >= kind.size_min().bytes()
    }
}

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the protocol's own names")]
#[repr(u8)]
pub enum Type {
    Alloc = 1,
    Free = 2,
    Query = 3,
    Response = 4,
    DumpRemaining = 5,
    DeviceInfoQuery = 6,
    DeviceInfoResponse = 7,
    CbAlloc = 8,
    CbFree = 9,
    KernelLoad = 10,
    KernelUnload = 11,
    DumpKernels = 12,
}

impl Type {
    /// All types, by number from 1.
    pub const ALL: [Self; 12] = [
        Self::Alloc,
        Self::Free,
        Self::Query,
        Self::Response,
        Self::DumpRemaining,
        Self::DeviceInfoQuery,
        Self::DeviceInfoResponse,
        Self::CbAlloc,
        Self::CbFree,
        Self::KernelLoad,
        Self::KernelUnload,
        Self::DumpKernels,
    ];

    /// Returns the type for a number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// Returns the shortest size that supports this type.
    pub const fn size_min(self) -> Size {
        match self {
            Self::Alloc | Self::Free | Self::Query | Self::Response | Self::DumpRemaining => Size::B72,
            Self::DeviceInfoQuery | Self::DeviceInfoResponse => Size::B112,
            Self::CbAlloc | Self::CbFree | Self::KernelLoad | Self::KernelUnload => Size::B128,
            Self::DumpKernels => Size::B144,
        }
    }

    /// Returns whether the sender waits for a reply. The reply has the size of the request.
    pub const fn is_query(self) -> bool {
        matches!(self, Self::Query | Self::DeviceInfoQuery)
    }
}

/// The contents of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The type.
    pub kind: Type,
    /// The sender's number of the device.
    pub device_id: i32,
    /// Bytes.
    pub size: u64,
    /// TT-Metal's buffer type, or the type of a kernel.
    pub buffer_type: u8,
    /// The pid that the sender claims, in its own namespace, or 0 in queries.
    pub process_id: i32,
    /// An address, or another number.
    pub buffer_id: u64,
    /// Time in ns since 1970, or 0 if the sender does not set it.
    pub timestamp: u64,
}

impl Request {
    /// Creates a request that has only a type.
    pub const fn new(kind: Type) -> Self {
        Self { kind, device_id: 0, size: 0, buffer_type: 0, process_id: 0, buffer_id: 0, timestamp: 0 }
    }

    /// Parses the header. [`Framing`] handles the bytes after it.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let kind = Type::from_byte(bytes[0]).ok_or(Malformed::Type(bytes[0]))?;
        let device_id = i32::from_le_bytes(part(bytes, 4));
        if u32::from_le_bytes(part(bytes, 0)) >> 8 != 0 || u32::from_le_bytes(part(bytes, 16)) >> 8 != 0 {
            return Err(Malformed::Padding);
        }
        if device_id < -1 {
            return Err(Malformed::Device(device_id));
        }
        Ok(Self {
            kind,
            device_id,
            size: u64::from_le_bytes(part(bytes, 8)),
            buffer_type: bytes[16],
            process_id: i32::from_le_bytes(part(bytes, 20)),
            buffer_id: u64::from_le_bytes(part(bytes, 24)),
            timestamp: u64::from_le_bytes(part(bytes, 32)),
        })
    }

    /// Encodes the request in one size.
    pub fn encode(&self, size: Size) -> Message {
        let mut message = Message::new(size, self.kind, self.device_id);
        message.put(8, self.size.to_le_bytes());
        message.put(16, [self.buffer_type]);
        message.put(20, self.process_id.to_le_bytes());
        message.put(24, self.buffer_id.to_le_bytes());
        message.put(32, self.timestamp.to_le_bytes());
        message
    }
}

/// Returns a part of the header. Offsets and lengths are valid constants.
#[inline]
fn part<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

/// The bytes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: [u8; MESSAGE_BYTES_MAX],
    size: Size,
}

impl Message {
    fn new(size: Size, kind: Type, device_id: i32) -> Self {
        let mut message = Self { bytes: [0; MESSAGE_BYTES_MAX], size };
        message.put(0, [kind as u8]);
        message.put(4, device_id.to_le_bytes());
        message
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&value);
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size.bytes()]
    }
}

/// Memory in use on a device. This is the reply to [`Type::Query`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the contract's kinds, in bytes")]
pub struct Usage {
    pub dram: u64,
    pub l1: u64,
    pub l1_small: u64,
    pub trace: u64,
    pub cb: u64,
    pub kernel: u64,
}

impl Usage {
    /// Encodes the reply. Messages shorter than 128 bytes have no fields for circular buffers and kernels.
    pub fn reply(&self, size: Size, device_id: i32) -> Message {
        let mut message = Message::new(size, Type::Response, device_id);
        for (at, value) in [(40, self.dram), (48, self.l1), (56, self.l1_small), (64, self.trace)] {
            message.put(at, value.to_le_bytes());
        }
        if size >= Size::B128 {
            message.put(72, self.cb.to_le_bytes());
            message.put(80, self.kernel.to_le_bytes());
        }
        message
    }

    /// Parses a reply.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let size = reply_size(message, Type::Response)?;
        let figure = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| message[at + index]));
        let later = |at: usize| if size >= Size::B128 { figure(at) } else { 0 };
        Some(Self { dram: figure(40), l1: figure(48), l1_small: figure(56), trace: figure(64), cb: later(72), kernel: later(80) })
    }
}

/// A device's properties, or the number of devices. This is the reply to [`Type::DeviceInfoQuery`]. A figure that does not fit into its
/// field is sent as the largest value that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Bytes of DRAM.
    pub dram_bytes: u64,
    /// Bytes of L1 of all worker cores.
    pub l1_bytes: u64,
    /// 1 for Grayskull, 2 for Wormhole, 3 for Blackhole, 0 if unknown.
    pub arch: u32,
    /// Number of DRAM channels, or 0 if unknown.
    pub dram_channels: u32,
    /// Bytes per channel, or 0 if unknown.
    pub dram_channel_bytes: u64,
    /// Bytes of L1 of one core.
    pub l1_bytes_per_core: u64,
    /// Whether the requested device exists, or whether any device exists.
    pub is_available: bool,
    /// Number of devices, if requested.
    pub devices: u32,
}

impl DeviceInfo {
    /// Encodes the reply. Returns `None` if the size does not support it.
    pub fn reply(&self, size: Size, device_id: i32) -> Option<Message> {
        let mut message = Message::new(size, Type::DeviceInfoResponse, device_id);
        let first = info_place(size)?;
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
        message.put(first, self.dram_bytes.to_le_bytes());
        message.put(first + 8, self.l1_bytes.to_le_bytes());
        message.put(first + 16, self.arch.to_le_bytes());
        message.put(first + 20, self.dram_channels.to_le_bytes());
        message.put(first + 24, narrow(self.dram_channel_bytes));
        message.put(first + 28, narrow(self.l1_bytes_per_core));
        message.put(first + 32, u32::from(self.is_available).to_le_bytes());
        message.put(first + 36, self.devices.to_le_bytes());
        Some(message)
    }

    /// Parses a reply.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let first = info_place(reply_size(message, Type::DeviceInfoResponse)?)?;
        let wide = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| message[first + at + index]));
        let narrow = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| message[first + at + index]));
        Some(Self {
            dram_bytes: wide(0),
            l1_bytes: wide(8),
            arch: narrow(16),
            dram_channels: narrow(20),
            dram_channel_bytes: u64::from(narrow(24)),
            l1_bytes_per_core: u64::from(narrow(28)),
            is_available: narrow(32) != 0,
            devices: narrow(36),
        })
    }
}

/// Returns the offset of a device's figures. They follow those of circular buffers and kernels, if present.
fn info_place(size: Size) -> Option<usize> {
    match size {
        Size::B72 => None,
        Size::B112 => Some(72),
        Size::B128 | Size::B144 => Some(88),
    }
}

fn reply_size(message: &[u8], kind: Type) -> Option<Size> {
    let size = Size::from_bytes(message.len())?;
    (message[0] == kind as u8).then_some(size)
}
