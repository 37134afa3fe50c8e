//! The patcher's view of an object: segments of bytes at addresses, and the starts of its
//! functions.

use alloc::vec::Vec;
use core::ops::Range;

/// A loaded segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The address of the first byte: in the process, or in the file if the object is not loaded.
    pub address: u64,
    /// The bytes of the segment.
    pub bytes: &'a [u8],
    /// Whether the segment holds code.
    pub executable: bool,
}

impl Segment<'_> {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    /// The addresses of the segment.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.end()
    }
}

/// An object: its segments, the address of its function table, and whether it is libc.
#[derive(Debug, Clone, Default)]
pub struct Image<'a> {
    /// The segments, in any order.
    pub segments: Vec<Segment<'a>>,
    /// The address of the sorted table of functions (`PT_GNU_EH_FRAME`).
    pub functions: Option<u64>,
    /// The sections that hold code, in order ([`crate::code_sections`]). `None` if the object has
    /// no section headers.
    pub code: Option<Vec<Range<u64>>>,
    /// Whether the object belongs to glibc. Glibc passes no vector register across a system call.
    pub is_libc: bool,
}

impl<'a> Image<'a> {
    /// The bytes from `address` to the end of their segment.
    pub fn bytes_at(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self
            .segments
            .iter()
            .find(|segment| (segment.address..segment.end()).contains(&address))?;
        segment.bytes.get(usize::try_from(address - segment.address).ok()?..)
    }

    /// The functions of the object, if it has a table of them.
    pub(crate) fn function_table(&self) -> Option<FunctionTable<'a>> {
        FunctionTable::parse(self.functions?, self.bytes_at(self.functions?)?)
    }
}

/// The binary search table of `.eh_frame_hdr`: the first address of each function, in order.
///
/// Source: Linux Standard Base, Core, "Exception Frames".
pub(crate) struct FunctionTable<'a> {
    /// The address of the header. Entries are relative to it.
    header: u64,
    /// Pairs of signed 32-bit numbers: the start of the function, and the place of its description.
    entries: &'a [u8],
}

const ENTRY_BYTES: usize = 8;
/// Code this close behind a function may belong to it.
const TAIL: u64 = 32;

impl<'a> FunctionTable<'a> {
    fn parse(header: u64, bytes: &'a [u8]) -> Option<Self> {
        /// Version 1; a pointer of any kind; a count of four bytes; entries relative to the header.
        const COUNT_IS_U32: u8 = 0x03;
        const ENTRIES_ARE_RELATIVE: u8 = 0x3b;
        /// Every linker writes the pointer to `.eh_frame` as four bytes.
        const PREFIX_BYTES: usize = 8;
        if bytes.len() < PREFIX_BYTES + 4
            || bytes[0] != 1
            || bytes[2] != COUNT_IS_U32
            || bytes[3] != ENTRIES_ARE_RELATIVE
        {
            return None;
        }
        let count = u32::from_le_bytes(bytes[8..12].try_into().ok()?) as usize;
        let entries = bytes.get(12..12 + count.checked_mul(ENTRY_BYTES)?)?;
        (count > 0).then_some(Self { header, entries })
    }

    fn start(&self, index: usize) -> u64 {
        let at = index * ENTRY_BYTES;
        let mut offset = [0; 4];
        offset.copy_from_slice(&self.entries[at..at + 4]);
        self.header.wrapping_add_signed(i64::from(i32::from_le_bytes(offset)))
    }

    /// The addresses from the first function to the end of the last one.
    pub(crate) fn span(&self, image: &Image<'_>) -> Range<u64> {
        let last = self.entries.len() / ENTRY_BYTES - 1;
        let length = self.length(image, last).unwrap_or(0);
        self.start(0)..self.start(last).saturating_add(length)
    }

    /// The function that holds `address`, or the stretch between two functions.
    pub(crate) fn around(
        &self,
        image: &Image<'_>,
        address: u64,
        within: &Range<u64>,
    ) -> (Range<u64>, Place) {
        let count = self.entries.len() / ENTRY_BYTES;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            if self.start(middle) <= address { low = middle + 1 } else { high = middle }
        }
        let next = if low < count { self.start(low).min(within.end) } else { within.end };
        let Some(index) = low.checked_sub(1) else {
            return (within.start..next, Place::Between);
        };
        let start = self.start(index).max(within.start);
        let end = match self.length(image, index) {
            Some(length) => self.start(index).saturating_add(length).clamp(start, next),
            None => next,
        };
        if address < end {
            (start..end, Place::Function)
        } else {
            // glibc ends the description of clone(2) before its system call.
            let from = if address - end < TAIL { start } else { end };
            (from..next, Place::Between)
        }
    }

    /// The length of a function, from its description in `.eh_frame`.
    fn length(&self, image: &Image<'_>, index: usize) -> Option<u64> {
        /// The length follows three fields: the description's length, a pointer to its shared part,
        /// and the function's start.
        const LENGTH_OFFSET: usize = 12;
        let at = index * ENTRY_BYTES + 4;
        let offset = i32::from_le_bytes(self.entries.get(at..at + 4)?.try_into().ok()?);
        let description = image.bytes_at(self.header.wrapping_add_signed(i64::from(offset)))?;
        let length = description.get(LENGTH_OFFSET..LENGTH_OFFSET + 4)?;
        Some(u64::from(u32::from_le_bytes(length.try_into().ok()?)))
    }
}

/// The table's verdict about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// The address is inside a function.
    #[default]
    Function,
    /// The address is in no function: data, or code that no table describes.
    Between,
}
