//! Finds the system-call instructions, and decides which neighbours of each make room for a jump.
//!
//! A jump needs five bytes and a `syscall` has two, so a site includes neighbouring instructions:
//!
//! ```text
//!   Number   mov $nr,%eax ; syscall            the usual one. The move can be repeated, so the
//!                                              address of the syscall stays a restart address
//!   Before   a ; b ; syscall                   a and b move into the stub
//!   After    syscall ; c ; d                   where a branch leads to the syscall: c and d move
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use crate::image::{FunctionTable, Image, Place, Segment};
use crate::liveness::{uses_vectors, vectors_alive_after};

/// The neighbours of a `syscall` that make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The instruction before it, which moves the number of the call.
    Number,
    /// One or more instructions before it.
    Before,
    /// One or more instructions after it.
    After,
}

/// One system-call instruction that can be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The address of the `syscall` instruction.
    pub syscall: u64,
    /// The bytes that the jump and its neighbours take.
    pub range: Range<u64>,
    /// The neighbours that make room.
    pub kind: Kind,
    /// The number of the system call, if the code next to the instruction sets it.
    pub number: Option<u32>,
    /// A vector register may be alive across the call.
    pub vectors: bool,
    /// Operands of the neighbours that are relative to the address of their instruction.
    pub relative: Vec<Relative>,
}

/// Four bytes of an instruction that hold a distance from the instruction's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative {
    /// The address of the four bytes.
    pub field: u64,
    /// The address at which the instruction ends.
    pub end: u64,
    /// The address that the instruction refers to.
    pub target: u64,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The sites that can be replaced, in order of addresses.
    pub sites: Vec<Site>,
    /// Addresses of system-call instructions that cannot be replaced.
    pub unpatchable: Vec<u64>,
    /// The number of candidates that are data, or that lie inside another instruction.
    pub false_candidates: usize,
}

/// The length of a jump that reaches two gibibytes.
pub(crate) const JUMP_BYTES: u64 = 5;
const SYSCALL_BYTES: u64 = 2;
/// The longest stretch without a table of functions that is decoded at a time.
const SWEEP_BYTES: u64 = 1 << 16;

/// Finds every system-call instruction in the code of `image`.
pub fn find_sites(image: &Image<'_>) -> Findings {
    let table = image.function_table();
    let mut search = Search { image, table: table.as_ref(), findings: Findings::default() };
    for segment in image.segments.iter().filter(|segment| segment.executable) {
        let code = match (&image.code, search.table) {
            (Some(sections), _) => sections.clone(),
            (None, Some(table)) => alloc::vec![table.span(image)],
            (None, None) => Vec::new(),
        };
        let mut from = segment.address;
        for code in code.iter().map(|code| within(code, &segment.range())) {
            search.doubtful(segment, &(from..code.start.max(from)));
            search.code(segment, &code);
            from = from.max(code.end);
        }
        search.doubtful(segment, &(from..segment.range().end));
    }
    search.findings
}

/// Whether the code of `image` has bytes like a system-call instruction. A search that finds none
/// decodes nothing. The first instruction that is decoded costs half a megabyte for the decoder's
/// tables.
pub fn has_candidates(image: &Image<'_>) -> bool {
    let mut code = image.segments.iter().filter(|segment| segment.executable);
    code.any(|segment| candidates(segment, &segment.range()).next().is_some())
}

/// The part of `range` that lies within `whole`.
fn within(range: &Range<u64>, whole: &Range<u64>) -> Range<u64> {
    let start = range.start.clamp(whole.start, whole.end);
    start..range.end.clamp(start, whole.end)
}

struct Search<'a> {
    image: &'a Image<'a>,
    table: Option<&'a FunctionTable<'a>>,
    findings: Findings,
}

impl Search<'_> {
    /// Searches a stretch that holds code.
    fn code(&mut self, segment: &Segment<'_>, stretch: &Range<u64>) {
        let mut function = Function::default();
        for candidate in candidates(segment, stretch) {
            function = self.function_around(segment, stretch, function, candidate);
            match function.index_of(candidate) {
                // Data between functions can look like a call. So between functions, a call counts
                // only if its number is set before it.
                Some(index)
                    if function.place == Place::Function
                        || function.number_before(index).is_some() =>
                {
                    match function.site(index, self.image.is_libc) {
                        Some(site) => self.findings.sites.push(site),
                        None => self.findings.unpatchable.push(candidate),
                    }
                }
                _ => self.findings.false_candidates += 1,
            }
        }
    }

    /// Searches a stretch that is data by all that the object says. A candidate that looks like a
    /// call all the same may be code or data, so the object cannot be patched.
    fn doubtful(&mut self, segment: &Segment<'_>, stretch: &Range<u64>) {
        let mut function = Function::default();
        for candidate in candidates(segment, stretch) {
            function = self.function_around(segment, stretch, function, candidate);
            let undecided = function.index_of(candidate).is_some_and(|index| {
                let is_data = self.image.code.is_some();
                function.place == Place::Function
                    || (!is_data && function.number_before(index).is_some())
            });
            if undecided {
                self.findings.unpatchable.push(candidate);
            } else {
                self.findings.false_candidates += 1;
            }
        }
    }

    /// The decoded function that holds `candidate`, which may be the one that held the last.
    fn function_around<'a>(
        &self,
        segment: &Segment<'a>,
        stretch: &Range<u64>,
        last: Function<'a>,
        candidate: u64,
    ) -> Function<'a> {
        if last.range.contains(&candidate) {
            return last;
        }
        let (range, place) = match self.table {
            Some(table) => table.around(self.image, candidate, stretch),
            None => (stretch.clone(), Place::Between),
        };
        let range = match place {
            Place::Function => true_start(segment, range),
            Place::Between if range.end - range.start <= SWEEP_BYTES => true_start(segment, range),
            Place::Between => sweep_around(candidate, &range),
        };
        Function { place, ..last.decode(segment, range) }
    }
}

/// Addresses of the bytes of a `syscall` instruction in a stretch of the segment.
fn candidates<'a>(
    segment: &Segment<'a>,
    stretch: &Range<u64>,
) -> impl Iterator<Item = u64> + use<'a> {
    let offset = |address: u64| (address - segment.address) as usize;
    let (address, bytes) =
        (stretch.start, &segment.bytes[offset(stretch.start)..offset(stretch.end)]);
    let mut from = 0;
    core::iter::from_fn(move || {
        loop {
            // 05 is rarer than 0f in code.
            let next = from + memchr(0x05, bytes.get(from..)?)?;
            from = next + 1;
            if next > 0 && bytes[next - 1] == 0x0f {
                return Some(address + next as u64 - 1);
            }
        }
    })
}

/// Finds the first `byte`, eight bytes at a time.
fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let pattern = ONES * u64::from(byte);
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]) ^ pattern;
        let zeros = word.wrapping_sub(ONES) & !word & HIGHS;
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Some(at + bytes.get(at..)?.iter().position(|&other| other == byte)?)
}

/// For code without a table of functions: a stretch that starts well before the candidate. A
/// decoder that starts inside an instruction finds the boundaries again after a few instructions.
fn sweep_around(candidate: u64, whole: &Range<u64>) -> Range<u64> {
    let start = candidate.saturating_sub(SWEEP_BYTES / 2).max(whole.start);
    start..(start + SWEEP_BYTES).min(whole.end)
}

/// The address of a function's first instruction. For unwinders, the entry of glibc's
/// `__restore_rt` starts one byte before the first instruction. Decoding from that byte would give
/// wrong instructions.
fn true_start(segment: &Segment<'_>, range: Range<u64>) -> Range<u64> {
    /// mov $15, %rax; syscall
    const RETURN_FROM_SIGNAL: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let second = (range.start - segment.address) as usize + 1;
    if segment.bytes[second..].starts_with(&RETURN_FROM_SIGNAL) {
        range.start + 1..range.end
    } else {
        range
    }
}

/// A decoded function.
#[derive(Default)]
struct Function<'a> {
    range: Range<u64>,
    place: Place,
    code: &'a [u8],
    instructions: Vec<Instruction>,
    /// The targets of the function's own branches.
    targets: Vec<u64>,
    vectors: bool,
}

impl<'a> Function<'a> {
    /// Decodes another function, and reuses the memory of this function.
    fn decode(mut self, segment: &Segment<'a>, range: Range<u64>) -> Self {
        let offset = |address: u64| (address - segment.address) as usize;
        let code = &segment.bytes[offset(range.start)..offset(range.end)];
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        self.instructions.clear();
        self.targets.clear();
        let mut function = Self { range, code, vectors: false, ..self };
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let near = matches!(
                instruction.op0_kind(),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            );
            if instruction.op_count() > 0 && near {
                function.targets.push(instruction.near_branch_target());
            }
            function.vectors |= uses_vectors(&instruction);
            function.instructions.push(instruction);
        }
        function.targets.sort_unstable();
        function
    }

    /// The instruction that starts at `address` and is a system call.
    fn index_of(&self, address: u64) -> Option<usize> {
        let index = self.instructions.binary_search_by_key(&address, Instruction::ip).ok()?;
        (self.instructions[index].code() == Code::Syscall).then_some(index)
    }

    fn is_target(&self, address: u64) -> bool {
        self.targets.binary_search(&address).is_ok()
    }

    fn site(&self, index: usize, is_libc: bool) -> Option<Site> {
        let syscall = self.instructions[index].ip();
        let number = self.number_before(index);
        let (range, kind) = match self.room_before(index) {
            Some((start, kind)) => (start..syscall + SYSCALL_BYTES, kind),
            None => (syscall..self.room_after(index)?, Kind::After),
        };
        let vectors = self.vectors && (!is_libc || vectors_alive_after(&self.instructions, index));
        let beside = index.saturating_sub(JUMP_BYTES as usize)..index + JUMP_BYTES as usize;
        let relative = self.instructions[beside.start..beside.end.min(self.instructions.len())]
            .iter()
            .filter(|instruction| range.contains(&instruction.ip()))
            .filter_map(|instruction| self.relative(instruction))
            .collect();
        Some(Site { syscall, range, kind, number, vectors, relative })
    }

    /// The number that the last move into `eax` before the call sets, if no branch leads between
    /// the two.
    fn number_before(&self, index: usize) -> Option<u32> {
        for before in (index.saturating_sub(8)..index).rev() {
            if self.is_target(self.instructions[before + 1].ip()) {
                return None;
            }
            let instruction = &self.instructions[before];
            if let Some(number) = moves_number(instruction) {
                return Some(number);
            }
            if !falls_through(instruction) || writes_accumulator(instruction) {
                return None;
            }
        }
        None
    }

    /// Whether the instruction can be moved: execution continues to the next instruction, and the
    /// instruction works elsewhere, perhaps with an adjusted operand.
    fn movable(&self, instruction: &Instruction) -> bool {
        falls_through(instruction)
            && instruction.code() != Code::Syscall
            && (!instruction.is_ip_rel_memory_operand() || self.relative(instruction).is_some())
    }

    /// The operand that is relative to the instruction's address, if it can be adjusted.
    fn relative(&self, instruction: &Instruction) -> Option<Relative> {
        if !instruction.is_ip_rel_memory_operand() {
            return None;
        }
        let (ip, end) = (instruction.ip(), instruction.next_ip());
        let bytes = self.code.get((ip - self.range.start) as usize..)?;
        let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
        let again = decoder.decode();
        let offsets = decoder.get_constant_offsets(&again);
        let wide = offsets.has_displacement() && offsets.displacement_size() == 4;
        wide.then(|| Relative {
            field: ip + offsets.displacement_offset() as u64,
            end,
            target: instruction.ip_rel_memory_address(),
        })
    }

    /// The room among the instructions before the call, unless a branch leads between them.
    fn room_before(&self, index: usize) -> Option<(u64, Kind)> {
        let end = self.instructions[index].next_ip();
        let mut first = index;
        while end - self.instructions[first].ip() < JUMP_BYTES {
            if self.is_target(self.instructions[first].ip()) || first == 0 {
                return None;
            }
            first -= 1;
            if !self.movable(&self.instructions[first]) {
                return None;
            }
        }
        let idempotent = first + 1 == index && moves_number(&self.instructions[first]).is_some();
        let kind = if idempotent { Kind::Number } else { Kind::Before };
        Some((self.instructions[first].ip(), kind))
    }

    /// The room among the instructions after the call.
    fn room_after(&self, index: usize) -> Option<u64> {
        let start = self.instructions[index].ip();
        let mut last = index;
        while self.instructions[last].next_ip() - start < JUMP_BYTES {
            last += 1;
            let instruction = self.instructions.get(last)?;
            if self.is_target(instruction.ip()) || !self.movable(instruction) {
                return None;
            }
        }
        Some(self.instructions[last].next_ip())
    }
}

fn falls_through(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::Next && instruction.code() != Code::INVALID
}

/// `mov $number, %eax`, in either of its encodings.
fn moves_number(instruction: &Instruction) -> Option<u32> {
    let into_accumulator = matches!(instruction.op0_register(), Register::EAX | Register::RAX);
    let moves = matches!(instruction.code(), Code::Mov_r32_imm32 | Code::Mov_rm64_imm32);
    (moves && into_accumulator && instruction.op0_kind() == OpKind::Register)
        .then(|| instruction.immediate32())
}

fn writes_accumulator(instruction: &Instruction) -> bool {
    instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(bytes: &[u8], code: Option<Range<u64>>) -> Image<'_> {
        let segment = Segment { address: 0x1000, bytes, executable: true };
        let code = code.map(|code| alloc::vec![code]);
        Image { segments: alloc::vec![segment], code, ..Image::default() }
    }

    fn find(bytes: &[u8]) -> Findings {
        find_sites(&image_of(bytes, Some(0x1000..0x1000 + bytes.len() as u64)))
    }

    /// Calls [`find`] with a table that lists the code as one function.
    fn find_in_function(bytes: &[u8]) -> Findings {
        find_beside_function(bytes, 0, bytes.len())
    }

    /// Calls [`find`] with a table that lists a part of the code as one function, and without
    /// sections.
    fn find_beside_function(bytes: &[u8], start: usize, length: usize) -> Findings {
        // A header at 0x2000: version 1, encodings, one entry, for 0x1000, described at 0x2020.
        let mut header = alloc::vec![1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0];
        header.extend_from_slice(&(start as i32 - 0x1000).to_le_bytes());
        header.extend_from_slice(&0x20i32.to_le_bytes());
        header.resize(0x20 + 12, 0);
        header.extend_from_slice(&(length as u32).to_le_bytes());
        let code = Segment { address: 0x1000, bytes, executable: true };
        let tables = Segment { address: 0x2000, bytes: &header, executable: false };
        let segments = alloc::vec![code, tables];
        find_sites(&Image { segments, functions: Some(0x2000), ..Image::default() })
    }

    /// nop; mov $0x27,%eax; syscall; ret
    const CALL: [u8; 9] = [0x90, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3];

    #[test]
    fn candidates_are_bytes_in_code() {
        assert!(has_candidates(&image_of(&[0xb8, 0x0f, 0x05, 0xc3], None)));
        assert!(!has_candidates(&image_of(&[0x05, 0x0f, 0x0f, 0xc3], None)));
        let mut data = image_of(&[0xb8, 0x0f, 0x05, 0xc3], None);
        data.segments[0].executable = false;
        assert!(!has_candidates(&data));
    }

    #[test]
    fn what_looks_like_a_call_outside_of_code_is_data() {
        let bytes = [CALL, CALL, CALL].concat();
        let middle = 0x1000 + CALL.len() as u64;
        let findings = find_sites(&image_of(&bytes, Some(middle..middle + CALL.len() as u64)));
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!(site.range, middle + 1..middle + 8);
        assert_eq!((findings.false_candidates, findings.unpatchable.len()), (2, 0));
    }

    #[test]
    fn without_sections_a_call_beside_the_functions_is_refused() {
        // Before the first function, in it, and behind the last one.
        let bytes = [CALL, CALL, CALL].concat();
        let findings = find_beside_function(&bytes, CALL.len(), CALL.len());
        assert_eq!(findings.sites.len(), 1);
        assert_eq!(findings.unpatchable, [0x1006, 0x1006 + 2 * CALL.len() as u64]);
        // With no table either, nothing is known to be code.
        let findings = find_sites(&image_of(&CALL, None));
        assert_eq!((findings.sites.len(), findings.unpatchable), (0, alloc::vec![0x1006]));
    }

    #[test]
    fn without_sections_bytes_beside_the_functions_that_set_no_number_are_data() {
        // An entry of a relocation table: the bytes of the call are followed by others.
        let data = [0x0f, 0x05, 0, 0, 0, 0, 0, 0, 8];
        let findings = find_beside_function(&[data, CALL, data].concat(), data.len(), CALL.len());
        assert_eq!((findings.sites.len(), findings.false_candidates), (1, 2));
        assert_eq!(findings.unpatchable, []);
    }

    #[test]
    fn data_between_functions_is_no_call() {
        // ret; the bytes of a system call, with no number before it
        assert_eq!(find(&[0xc3, 0x0f, 0x05, 0xc3]).sites.len(), 0);
    }

    #[test]
    fn the_usual_site_takes_the_move_of_its_number() {
        // nop; mov $0x27,%eax; syscall; ret
        let findings = find(&[0x90, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!((site.kind, site.number), (Kind::Number, Some(0x27)));
        assert_eq!(site.range, 0x1001..0x1008);
        assert!(!site.vectors);
    }

    #[test]
    fn short_instructions_before_the_call_move_together() {
        // mov $0x27,%eax; xor $0x80,%sil (4 bytes); syscall; ret
        let findings = find(&[0xb8, 0x27, 0, 0, 0, 0x40, 0x80, 0xf6, 0x80, 0x0f, 0x05, 0xc3]);
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!((site.kind, site.number), (Kind::Before, Some(0x27)));
        assert_eq!(site.range, 0x1005..0x100b);
    }

    #[test]
    fn a_branch_to_the_call_moves_what_follows() {
        // jmp +5; mov $1,%eax; (target) syscall; cmp $-4096,%rax; ret
        let findings = find_in_function(&[
            0xeb, 0x05, 0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0xc3,
        ]);
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!((site.kind, site.number), (Kind::After, None));
        assert_eq!(site.range, 0x1007..0x100f);
    }

    #[test]
    fn operands_relative_to_their_instruction_are_noted() {
        // lea 0x10(%rip),%rdi; syscall; jmp back: as in glibc 2.31
        let findings = find_in_function(&[0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf5]);
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!((site.kind, site.range.clone()), (Kind::Before, 0x1000..0x1009));
        assert_eq!(site.relative, [Relative { field: 0x1003, end: 0x1007, target: 0x1017 }]);
    }

    #[test]
    fn no_room_is_said() {
        // xor %eax,%eax; (target) syscall; jmp to the call
        let findings = find_in_function(&[0x31, 0xc0, 0x0f, 0x05, 0xeb, 0xfc]);
        assert_eq!((findings.sites.len(), findings.unpatchable), (0, alloc::vec![0x1002]));
    }

    #[test]
    fn the_inside_of_an_instruction_is_no_call() {
        // mov $0x050f,%eax; ret
        let findings = find(&[0xb8, 0x0f, 0x05, 0, 0, 0xc3]);
        assert_eq!((findings.sites.len(), findings.false_candidates), (0, 1));
    }

    #[test]
    fn an_entry_that_starts_one_byte_early_is_seen_through() {
        // The last byte of the padding; mov $15,%rax; syscall.
        let findings = find_in_function(&[0x00, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]);
        let [site] = &findings.sites[..] else { panic!("{findings:?}") };
        assert_eq!((site.kind, site.number), (Kind::Number, Some(15)));
        assert_eq!(site.range, 0x1001..0x100a);
    }

    #[test]
    fn vector_registers_are_seen() {
        // movaps %xmm0,(%rsp); mov $1,%eax; syscall; ret
        let findings = find(&[0x0f, 0x29, 0x04, 0x24, 0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        assert!(findings.sites[0].vectors);
    }

    #[test]
    fn in_libc_a_register_counts_if_it_is_read_before_it_is_written() {
        let find = |bytes: &[u8]| {
            let image = image_of(bytes, Some(0x1000..0x1000 + bytes.len() as u64));
            find_sites(&Image { is_libc: true, ..image }).sites[0].vectors
        };
        // mov $1,%eax; syscall; movaps %xmm0,(%rsp); ret
        assert!(find(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x29, 0x04, 0x24, 0xc3]));
        // mov $1,%eax; syscall; pxor %xmm0,%xmm0; movaps %xmm0,(%rsp); ret
        assert!(!find(&[
            0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x66, 0x0f, 0xef, 0xc0, 0x0f, 0x29, 0x04, 0x24, 0xc3,
        ]));
        // mov $1,%eax; syscall; call; movaps %xmm0,(%rsp): a value after a call does not come from
        // before it
        assert!(!find(&[
            0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0, 0x0f, 0x29, 0x04, 0x24, 0xc3,
        ]));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
            functions in proptest::option::of(0x1000u64..0x1200),
            code in proptest::option::of((0xf00u64..0x1200, 0u64..0x200)),
        ) {
            let code = code.map(|(start, length)| start..start + length);
            let image = Image { functions, ..image_of(&bytes, code.clone()) };
            for site in find_sites(&image).sites {
                assert!(site.range.end - site.range.start >= JUMP_BYTES);
                assert!(site.range.contains(&site.syscall));
                if let Some(code) = &code {
                    assert!(code.start <= site.range.start && site.range.end <= code.end);
                }
            }
        }
    }
}
