//! The question to `duality compare`: a service, a plan, or a plan of regimes.

use std::fs;

use duality_lab::ask::settings::Misfit;
use duality_lab::regimes::plan::is_of_regimes;

use super::compare::Arguments;
use super::{Failure, compare, flag, plan, regimes, what_ifs};
use crate::catalogue::Catalogue;

pub(super) fn answer(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let Some(file) = arguments.plan() else {
        return match arguments.what_ifs {
            true => what_ifs::run(catalogue, arguments),
            false => compare::run(catalogue, arguments),
        };
    };
    arguments.refuse_binaries_for_plan()?;
    let Arguments { resume, check, tables, tuning, budget, live, .. } = *arguments;
    let out = arguments.out();
    // The code below reports a file that cannot be read.
    let text = fs::read_to_string(file).unwrap_or_default();
    if is_of_regimes(&text) {
        arguments.refuse_for_regimes(file)?;
        let invocation = regimes::Invocation { file, text: &text, out: &out, resume, check };
        return regimes::measure(catalogue, &invocation);
    }
    if arguments.what_ifs {
        let problem =
            "a plan has experiments of its own: give each its bunch, client-rate or close";
        return Err(flag(Misfit::new("what-ifs", problem)));
    }
    if arguments.baseline.is_some() {
        let problem = "the experiments of a plan have no common baseline: leave it out";
        return Err(flag(Misfit::new("baseline", problem)));
    }
    let shown = compare::Shown { tables, baseline: None, asked: "" };
    let flags = plan::Flags { settings: arguments.settings(), tuning, budget, shown, live };
    match check {
        true => plan::check(catalogue, file, &flags),
        false => plan::run(catalogue, file, &flags, &out, resume),
    }
}
