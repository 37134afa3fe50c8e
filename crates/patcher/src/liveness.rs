//! Finds out whether a vector register is alive across a system call. The dispatcher would clobber
//! it.
//!
//! In libc, the search follows the code after the call: a register that is read before it is
//! written is alive. A function call ends the path, because no vector register survives a call.
//! Libc passes no vector register across a system call. In other objects a compiler may have placed
//! a system call anywhere. So in other objects, every call counts if its function uses vector
//! registers at all.

use alloc::vec::Vec;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

/// The number of instructions that the search follows from one call. Beyond that number, a register
/// counts as alive.
const FARTHEST: usize = 400;

/// Whether the instruction names a vector register.
pub(crate) fn uses_vectors(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).is_vector_register()
    })
}

/// Whether code after the instruction at `index` reads a vector register before it writes it.
pub(crate) fn vectors_alive_after(instructions: &[Instruction], index: usize) -> bool {
    let mut factory = InstructionInfoFactory::new();
    // The places to go on at, and the bits of the registers that have been written by then.
    let mut open: Vec<(usize, u32)> = Vec::new();
    open.push((index + 1, 0));
    let mut seen: Vec<(usize, u32)> = Vec::new();
    let mut steps = 0;
    while let Some((mut at, mut written)) = open.pop() {
        while let Some(instruction) = instructions.get(at) {
            if seen.iter().any(|&(other, before)| other == at && before & !written == 0) {
                break;
            }
            steps += 1;
            if steps > FARTHEST {
                return true;
            }
            if uses_vectors(instruction) {
                match effect(&mut factory, instruction, written) {
                    Some(more) => written = more,
                    None => return true,
                }
            }
            let target = || index_of(instructions, instruction.near_branch_target());
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch => {
                    seen.push((at, written));
                    if let Some(target) = target() {
                        open.push((target, written));
                    }
                }
                FlowControl::UnconditionalBranch => {
                    seen.push((at, written));
                    match target() {
                        Some(target) => {
                            at = target;
                            continue;
                        }
                        None => break,
                    }
                }
                _ => break,
            }
            at += 1;
        }
    }
    false
}

fn index_of(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, Instruction::ip).ok()
}

/// The registers that have been written after the instruction. `None` if the instruction reads a
/// register that has not been written.
fn effect(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    written: u32,
) -> Option<u32> {
    // `pxor %xmm0, %xmm0` reads no register, although its encoding names one.
    let operands = instruction.op_count();
    let clears = operands >= 2 && {
        let first = instruction.op_register(operands - 1);
        first == instruction.op_register(operands - 2) && is_zeroing(instruction)
    };
    let mut after = written;
    for used in factory.info(instruction).used_registers() {
        let register = used.register();
        if !register.is_vector_register() {
            continue;
        }
        let bit = 1u32 << (number(register) % 32);
        let reads = matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if reads && !clears && written & bit == 0 {
            return None;
        }
        if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
            after |= bit;
        }
    }
    Some(after)
}

fn is_zeroing(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic::{Pxor, Vpxor, Vpxord, Vpxorq, Vxorpd, Vxorps, Xorpd, Xorps};
    matches!(
        instruction.mnemonic(),
        Pxor | Xorps | Xorpd | Vpxor | Vpxord | Vpxorq | Vxorps | Vxorpd
    )
}

fn number(register: Register) -> usize {
    register.full_register().number()
}
