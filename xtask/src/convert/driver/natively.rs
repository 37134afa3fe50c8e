//! Tests of what the driver leaves to LLVM: archives, and code that is not converted.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{Driver, has};
use crate::failure::{At as _, Result};

impl Driver {
    /// CMake looks for these programs beside the compiler, by the compiler's prefix.
    pub(super) fn utilities(&self) -> Result {
        for name in ["duality-llvm-ar", "duality-llvm-ranlib"] {
            let link = self.work.join(name);
            let _ = fs::remove_file(&link);
            symlink(&self.command, &link).at(link.display())?;
            let printed = self.succeeds_with(Command::new(&link).arg("--version"), name)?;
            has(printed, &["LLVM version 19"])?;
        }
        Ok(())
    }

    /// A line says so. Options of the driver may stand among those of the compiler.
    pub(super) fn natively(&self) -> Result {
        self.succeeds("-O2 -c waits.c -o whole-waits.o")?;
        let printed = self.succeeds("-r whole-waits.o -o relocatable.o")?;
        has(printed, &["relocatable.o: a relocatable object (-r) is native code"])?;
        let printed = self.succeeds("-m32 -O2 -c plain.c -o small.o")?;
        has(printed, &["small.o: it is for another machine"])?;
        let printed = self.succeeds("-O2 -w -pthread whole.c --report -o reported")?;
        has(printed, &["functions may block; "])
    }
}
