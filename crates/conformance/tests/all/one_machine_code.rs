//! A service is compiled once. The program has one state machine of each service, and all
//! architectures run that one. If a service, or its stream, were generic over something that
//! architectures choose, the program would have several.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};

/// The function that drops the state machine of a service's connection, in rustc's legacy symbols.
/// It has the type of the state machine in its name, and `poll` has not.
const DROP: &str = "drop_in_place$LT$duality_runtime..handler..Serving$LT$";

/// The state machines of connections that a program has, and how many copies each has. A symbol
/// ends with a hash, which differs between copies.
fn machines(program: &str) -> BTreeMap<String, usize> {
    let bytes = std::fs::read(program).unwrap();
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
    let mut machines = BTreeMap::new();
    for symbol in file.symbols() {
        let name = symbol.name().unwrap();
        let Some((_, machine)) = name.split_once(DROP) else { continue };
        let (machine, _hash) = machine.rsplit_once("17h").unwrap();
        *machines.entry(machine.to_owned()).or_default() += 1;
    }
    machines
}

#[test]
fn a_service_has_one_state_machine_for_every_architecture() {
    let machines = machines(env!("CARGO_BIN_EXE_served"));
    for entry in duality_services::ALL {
        // The pages of a guestbook are served by http.
        let module = if entry.name == "guestbook" { "http" } else { entry.name };
        let of_service = format!("duality_services..{module}..");
        let own: Vec<_> = machines.iter().filter(|(name, _)| name.contains(&of_service)).collect();
        // These two have one that serves, and one that refuses.
        let ways = if matches!(module, "http" | "relay") { 2 } else { 1 };
        assert_eq!(own.len(), ways, "{}: {own:?}", entry.name);
        assert!(own.iter().all(|(_, copies)| **copies == 1), "{}: {own:?}", entry.name);
    }
}
