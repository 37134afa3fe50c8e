//! The stack of a thread that does not run, by the tables that every object carries for exceptions.
//!
//! Each step finds the function of an address (`.eh_frame_hdr`, sorted). Then it interprets what
//! the function's entry in `.eh_frame` says about that address: the caller's stack pointer, and the
//! places of saved registers. The tables and the stack are read as the program's memory, so damage
//! ends the walk, and nothing faults. Nothing is allocated.
//!
//! Source: System V ABI for x86_64, section 3.7; DWARF 5, section 6.4; LSB, "Exception Frames".

use crate::kernel::frame::Frame;
use crate::kernel::lock::Locked;
use crate::kernel::plain::Plain;
use crate::kernel::user;
use crate::schedule::context::Context;
use crate::show::loaded_objects::{self, LoadedObject};

/// Registers by their DWARF numbers: rbx 3, rbp 6, rsp 7, r12 to r15, the return address 16.
const REGISTERS: usize = 17;
const RSP: usize = 7;
const RETURN: usize = 16;

/// A place in the program: its registers, as far as they are known.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    registers: [u64; REGISTERS],
    /// Whether the address is that of an instruction, and not a return address.
    exact: bool,
}

impl Cursor {
    /// The place where the thread left its own code: `Thread::place`.
    pub(crate) fn at(place: usize) -> Option<Self> {
        if place == 0 {
            return None;
        }
        if place & 1 != 0 {
            return Some(Self::of_context(&user::read::<Context>(place - 1).ok()?));
        }
        let frame: Frame = user::read(place).ok()?;
        let mut registers = [0; REGISTERS];
        let saved = frame.kept().into_iter().chain([(RETURN, frame.return_address())]);
        saved.for_each(|(number, value)| registers[number] = value as u64);
        Some(Self { registers, exact: false })
    }

    /// Where a thread was interrupted.
    pub(crate) fn of_context(context: &Context) -> Self {
        Self { registers: context.by_number(), exact: true }
    }

    pub(crate) fn address(&self) -> u64 {
        self.registers[RETURN]
    }

    /// The object that the address lies in.
    pub(crate) fn object<'a>(&self, locked: &'a mut Locked) -> Option<&'a LoadedObject> {
        loaded_objects::find(locked, self.sought())
    }

    /// An address inside the instruction, because the bytes after a call may belong to the next
    /// function.
    fn sought(&self) -> u64 {
        self.address() - u64::from(!self.exact)
    }

    /// The caller. `None` at the end of the stack, or where the tables have no entry.
    pub(crate) fn caller(&self, functions: u64) -> Option<Self> {
        let entry = find_entry(functions, self.sought())?;
        let common = Common::read(entry.common)?;
        if common.is_signal_frame {
            let context = user::read::<Context>(self.registers[RSP] as usize).ok()?;
            return Some(Self::of_context(&context));
        }
        let mut rows = Rows::new(&common, entry.start);
        rows.execute(common.instructions, common.end, u64::MAX)?;
        rows.initial = rows.rules;
        rows.execute(entry.instructions(&common)?, entry.end, self.sought())?;
        let (register, offset) = rows.frame?;
        let frame = self.registers[register].wrapping_add_signed(offset);
        let mut registers = self.registers;
        registers[RSP] = frame;
        for (number, rule) in rows.rules.into_iter().enumerate() {
            match rule {
                Rule::Same => {}
                Rule::At(offset) => {
                    registers[number] =
                        user::read::<u64>(frame.wrapping_add_signed(offset) as usize).ok()?;
                }
                Rule::Unknown if number == RETURN => return None,
                Rule::Unknown => registers[number] = 0,
            }
        }
        // A stack grows downwards. Without this check, a damaged stack would make the walk endless.
        let ends = registers[RETURN] == 0 || frame <= self.registers[RSP];
        (!ends).then_some(Self { registers, exact: false })
    }
}

impl Cursor {
    /// The first function of a thread: its object, and the offset there. Two functions of libc lie
    /// beneath it.
    pub(crate) fn start_routine(self, locked: &mut Locked) -> Option<(&[u8], u64)> {
        const OF_LIBC: usize = 2;
        /// A limit above the number of callers of any stack.
        const MOST: usize = 1 << 24;
        let mut last = [None; OF_LIBC + 1];
        let mut at = Some(self);
        for _ in 0..MOST {
            let Some(cursor) = at else { break };
            last.rotate_left(1);
            last[OF_LIBC] = Some(cursor);
            at = cursor.object(locked).and_then(|object| cursor.caller(object.functions));
        }
        let routine = last[0]?;
        let object = routine.object(locked)?;
        let start = find_entry(object.functions, routine.sought())?.start;
        Some((&object.name, start - object.base))
    }
}

/// The place where the caller's register was saved.
#[derive(Clone, Copy)]
enum Rule {
    Same,
    /// In memory, at this offset from the frame's address.
    At(i64),
    Unknown,
}

/// Bytes of a table.
struct Reader(u64);

impl Reader {
    fn take<T: Plain>(&mut self) -> Option<T> {
        let value = user::read(self.0 as usize).ok()?;
        self.0 += size_of::<T>() as u64;
        Some(value)
    }

    /// A number in LEB128: its bits, how many there are, and the last byte.
    fn bits(&mut self) -> Option<(u64, u32, u8)> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte: u8 = self.take()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some((value, shift, byte));
            }
        }
    }

    fn unsigned(&mut self) -> Option<u64> {
        self.bits().map(|(value, ..)| value)
    }

    fn signed(&mut self) -> Option<i64> {
        let (value, shift, last) = self.bits()?;
        let sign = shift < 64 && last & 0x40 != 0;
        Some((if sign { value | u64::MAX << shift } else { value }) as i64)
    }
}

/// The entry of a function.
struct Entry {
    start: u64,
    common: u64,
    after_range: u64,
    end: u64,
}

impl Entry {
    fn instructions(&self, common: &Common) -> Option<u64> {
        if !common.is_augmented {
            return Some(self.after_range);
        }
        let mut reader = Reader(self.after_range);
        let length = reader.unsigned()?;
        Some(reader.0 + length)
    }
}

/// The function that has `address`, by the sorted table at `functions`.
fn find_entry(functions: u64, address: u64) -> Option<Entry> {
    const VERSION_AND_ENCODINGS: u32 = 0x3b03_1b01;
    let mut header = Reader(functions);
    if header.take::<u32>()? != VERSION_AND_ENCODINGS {
        return None;
    }
    header.take::<u32>()?;
    let count = u64::from(header.take::<u32>()?);
    let table = header.0;
    let field = |index: u64, second: u64| {
        let offset = user::read::<i32>((table + index * 8 + second * 4) as usize).ok()?;
        Some(functions.wrapping_add_signed(i64::from(offset)))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if field(middle, 0)? <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let start = field(low.checked_sub(1)?, 0)?;
    let mut reader = Reader(field(low - 1, 1)?);
    let length = u64::from(reader.take::<u32>()?);
    let end = reader.0 + length;
    let common_at = reader.0;
    let common = common_at - u64::from(reader.take::<u32>()?);
    // The range, in the encoding that the table has too.
    reader.take::<i32>()?;
    let range = u64::from(reader.take::<u32>()?);
    (address < start + range).then_some(Entry { start, common, after_range: reader.0, end })
}

/// The fields that several entries have in common.
struct Common {
    code_factor: u64,
    data_factor: i64,
    is_augmented: bool,
    is_signal_frame: bool,
    instructions: u64,
    end: u64,
}

impl Common {
    fn read(at: u64) -> Option<Self> {
        let mut reader = Reader(at);
        let length = u64::from(reader.take::<u32>()?);
        let end = reader.0 + length;
        reader.take::<u32>()?;
        reader.take::<u8>()?;
        let (mut is_augmented, mut is_signal_frame) = (false, false);
        loop {
            match reader.take::<u8>()? {
                0 => break,
                b'z' => is_augmented = true,
                b'S' => is_signal_frame = true,
                _ => {}
            }
        }
        let code_factor = reader.unsigned()?;
        let data_factor = reader.signed()?;
        reader.unsigned()?;
        if is_augmented {
            let length = reader.unsigned()?;
            reader.0 += length;
        }
        let instructions = reader.0;
        Some(Self { code_factor, data_factor, is_augmented, is_signal_frame, instructions, end })
    }
}

/// A register and an offset.
type Place = Option<(usize, i64)>;

/// The rules that the instructions of an entry give for one address.
struct Rows<'a> {
    common: &'a Common,
    address: u64,
    /// The frame's address.
    frame: Place,
    rules: [Rule; REGISTERS],
    initial: [Rule; REGISTERS],
    remembered: Option<(Place, [Rule; REGISTERS])>,
}

impl<'a> Rows<'a> {
    fn new(common: &'a Common, address: u64) -> Self {
        let rules = [Rule::Same; REGISTERS];
        Self { common, address, frame: None, rules, initial: rules, remembered: None }
    }

    fn set(&mut self, register: u64, rule: Rule) {
        if let Some(place) = self.rules.get_mut(register as usize) {
            *place = rule;
        }
    }

    fn offset(&self, reader: &mut Reader) -> Option<i64> {
        Some(reader.unsigned()? as i64 * self.common.data_factor)
    }

    /// Executes instructions until one is for a later address than `sought`.
    fn execute(&mut self, start: u64, end: u64, sought: u64) -> Option<()> {
        let mut reader = Reader(start);
        while reader.0 < end {
            let code: u8 = reader.take()?;
            let low = u64::from(code & 0x3f);
            let advance = match (code >> 6, code) {
                (1, _) => low,
                (2, _) => {
                    let offset = self.offset(&mut reader)?;
                    self.set(low, Rule::At(offset));
                    0
                }
                (3, _) => {
                    self.restore(low);
                    0
                }
                (_, 0x02) => u64::from(reader.take::<u8>()?),
                (_, 0x03) => u64::from(reader.take::<u16>()?),
                (_, 0x04) => u64::from(reader.take::<u32>()?),
                _ => {
                    self.rare(code, &mut reader)?;
                    0
                }
            };
            self.address += advance * self.common.code_factor;
            if self.address > sought {
                break;
            }
        }
        Some(())
    }

    fn restore(&mut self, register: u64) {
        if let Some(&rule) = self.initial.get(register as usize) {
            self.set(register, rule);
        }
    }

    fn rare(&mut self, code: u8, reader: &mut Reader) -> Option<()> {
        match code {
            // nop
            0x00 => {}
            // offset_extended
            0x05 => {
                let register = reader.unsigned()?;
                let offset = self.offset(reader)?;
                self.set(register, Rule::At(offset));
            }
            // restore_extended
            0x06 => {
                let register = reader.unsigned()?;
                self.restore(register);
            }
            // undefined
            0x07 => {
                let register = reader.unsigned()?;
                self.set(register, Rule::Unknown);
            }
            // same_value
            0x08 => {
                let register = reader.unsigned()?;
                self.set(register, Rule::Same);
            }
            // remember_state, restore_state
            0x0a => self.remembered = Some((self.frame, self.rules)),
            0x0b => (self.frame, self.rules) = self.remembered?,
            // def_cfa
            0x0c => self.frame = Some((reader.unsigned()? as usize, reader.unsigned()? as i64)),
            // def_cfa_register
            0x0d => self.frame = Some((reader.unsigned()? as usize, self.frame?.1)),
            // def_cfa_offset
            0x0e => self.frame = Some((self.frame?.0, reader.unsigned()? as i64)),
            // def_cfa_expression: of procedure linkage tables
            0x0f => {
                let length = reader.unsigned()?;
                reader.0 += length;
                self.frame = None;
            }
            // expression, val_expression
            0x10 | 0x16 => {
                let register = reader.unsigned()?;
                let length = reader.unsigned()?;
                reader.0 += length;
                self.set(register, Rule::Unknown);
            }
            // GNU_args_size
            0x2e => {
                reader.unsigned()?;
            }
            _ => return None,
        }
        let known = self.frame.is_none_or(|(register, _)| register < REGISTERS);
        known.then_some(())
    }
}
