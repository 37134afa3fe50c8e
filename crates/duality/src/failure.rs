//! The failures of commands. A misfit of a setting names its flag.

use duality_lab::ask::settings::Misfit;

pub use duality_lab::Failure;
pub(crate) use duality_lab::{Blame, Party};

/// The failure for a misfit of the command line.
pub(crate) fn flag(misfit: Misfit) -> Failure {
    let Misfit { key, problem } = misfit;
    let failure = Failure::misuse(problem);
    match key {
        // These settings have no flags. The service is a positional argument, and `WHOLE` means all
        // settings.
        "service" | Misfit::WHOLE => failure,
        key => failure.at(format_args!("--{}", name_of_flag(key))),
    }
}

/// The flag of a setting, which has a name of its own where a plan has a list.
fn name_of_flag(key: &str) -> &str {
    match key {
        "hosts" => "host",
        "trace" => "load-from",
        key => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_named_by_its_flag() {
        for (key, flag_name) in
            [("hosts", "--host: x"), ("trace", "--load-from: x"), ("tls", "--tls: x")]
        {
            assert_eq!(flag(Misfit::new(key, "x")).to_string(), flag_name);
        }
    }
}
