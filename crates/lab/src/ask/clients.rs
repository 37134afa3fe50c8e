//! Derives the behaviour of clients from all settings about clients.

use std::time::Duration;

use duality_load::{Arrivals, Crowd, Pattern, Sources};

use super::settings::{Misfit, Part, Settings};
use crate::measure::behaviour::Behaviour;

/// The default process by which requests arrive in an open loop.
const ARRIVALS: &str = "constant";
/// The default period of sinusoidal waits.
const PERIOD: Duration = Duration::from_secs(1);

/// The behaviour of clients that `settings` describe.
///
/// # Errors
///
/// The error names the settings that contradict the rest, or are missing.
pub fn behaviour(settings: &Settings) -> Result<Behaviour, Misfit> {
    let key = settings.said_for(Part::OpenLoop);
    let implied = match (key, &settings.trace) {
        (_, Some(_)) => Pattern::Trace.name(),
        (Some(_), None) => "open",
        (None, None) => "closed",
    };
    let name = settings.pattern.as_deref().unwrap_or(implied);
    let Some(named) = Pattern::named(name) else {
        let names = Pattern::NAMED.map(|named| named.name).join(", ");
        let problem = format!("there is no pattern `{name}`: choose one of {names}");
        return Err(Misfit::new("pattern", problem));
    };
    let keep_alive = settings.close.map(|close| !close);
    if let (Some(asked), Some(implied)) = (keep_alive, named.keep_alive)
        && asked != implied
    {
        let problem = format!("the pattern {name} implies the opposite: leave it out");
        return Err(Misfit::new("close", problem));
    }
    let pattern = match named.pattern {
        Some(pattern) => {
            if let Some(key) = key {
                let problem = format!("only the pattern open has it, and this is {name}");
                return Err(Misfit::new(key, problem));
            }
            pattern
        }
        None => Pattern::Open(arrivals(settings)?),
    };
    Ok(Behaviour {
        pattern,
        keep_alive: named.keep_alive.or(keep_alive).unwrap_or(true),
        crowd: Crowd {
            idle: settings.idle.unwrap_or(0),
            slow_readers: settings.slow_readers.unwrap_or(0),
            slow_senders: settings.slow_senders.unwrap_or(0),
            ..Crowd::default()
        },
        sources: settings.sources.map_or(Sources::Automatic, Sources::Count),
    })
}

fn arrivals(settings: &Settings) -> Result<Arrivals, Misfit> {
    let name = settings.arrivals.as_deref().unwrap_or(ARRIVALS);
    let rate = || {
        let problem = "the pattern open needs one, in requests a second";
        settings.rate.ok_or_else(|| Misfit::new("rate", problem))
    };
    if settings.wait.is_some() && settings.rate.is_some() {
        return Err(Misfit::new("rate", "the waits decide the rate: leave one of them out"));
    }
    if name != "sinusoidal" && settings.period.is_some() {
        return Err(Misfit::new("period", "only sinusoidal arrivals have one: leave it out"));
    }
    let period = settings.period.unwrap_or(PERIOD);
    Ok(match (name, settings.wait) {
        ("uniform", None) => Arrivals::uniform(rate()?),
        ("uniform", Some(wait)) => {
            Arrivals::Uniform { shortest: wait.shortest, longest: wait.longest }
        }
        ("sinusoidal", None) => Arrivals::sinusoidal(rate()?, period),
        ("sinusoidal", Some(wait)) => {
            Arrivals::Sinusoidal { shortest: wait.shortest, longest: wait.longest, period }
        }
        ("constant" | "poisson", Some(_)) => {
            let problem =
                format!("{name} arrivals have a rate instead: choose uniform or sinusoidal ones");
            return Err(Misfit::new("wait", problem));
        }
        ("constant", None) => Arrivals::Constant { rate: rate()? },
        ("poisson", None) => Arrivals::Poisson { rate: rate()? },
        _ => {
            let problem = format!(
                "there are no `{name}` arrivals: choose constant, poisson, uniform or sinusoidal"
            );
            return Err(Misfit::new("arrivals", problem));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::file;
    use crate::record::Clients;

    /// The experiment that these lines describe.
    fn of(lines: &str) -> Result<Behaviour, String> {
        let text = format!("title = 'a'\n[[experiment]]\nname = 'b'\n{lines}");
        let plan = file::parse(&text).unwrap_or_else(|problem| panic!("{lines}: {problem}"));
        behaviour(&plan.experiments[0].settings)
            .map_err(|misfit| format!("{}: {}", misfit.key, misfit.problem))
    }

    #[test]
    fn the_names_that_demsky_gave_imply_whether_connections_stay() {
        let implied =
            |lines| of(lines).map(|found| (found.pattern.name(), found.keep_alive)).unwrap();
        assert_eq!(implied(""), ("closed", true));
        assert_eq!(implied("close = true"), ("closed", false));
        assert_eq!(implied("pattern = 'long'"), ("closed", true));
        assert_eq!(implied("pattern = 'short'\nclose = true"), ("closed", false));
        assert_eq!(implied("pattern = 'serial'"), ("serial", true));
        assert_eq!(implied("pattern = 'limited'\nclose = true"), ("limited", false));
        assert_eq!(implied("rate = 10"), ("open", true));
    }

    #[test]
    fn an_open_loop_has_arrivals() {
        let open = |lines| of(&format!("pattern = 'open'\n{lines}")).unwrap().pattern;
        let waits = (Duration::from_micros(100), Duration::from_millis(2));
        let (shortest, longest) = waits;
        for (lines, arrivals) in [
            ("rate = 10.0", Arrivals::Constant { rate: 10.0 }),
            ("rate = 10\narrivals = 'poisson'", Arrivals::Poisson { rate: 10.0 }),
            ("rate = 10.0\narrivals = 'uniform'", Arrivals::uniform(10.0)),
            ("rate = 10.0\narrivals = 'sinusoidal'", Arrivals::sinusoidal(10.0, PERIOD)),
            ("wait = '100us..2ms'\narrivals = 'uniform'", Arrivals::Uniform { shortest, longest }),
            (
                "wait = '100us..2ms'\narrivals = 'sinusoidal'\nperiod = '5s'",
                Arrivals::Sinusoidal { shortest, longest, period: Duration::from_secs(5) },
            ),
        ] {
            assert_eq!(open(lines), Pattern::Open(arrivals), "{lines}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (lines, message) in [
            ("pattern = 'wild'", "pattern: there is no pattern `wild`: choose one of closed"),
            ("pattern = 'long'\nclose = true", "close: the pattern long"),
            ("pattern = 'short'\nclose = false", "close: the pattern short"),
            ("rate = 10.0\npattern = 'closed'", "rate: only the pattern open"),
            ("pattern = 'serial'\nwait = '1ms..2ms'", "wait: only the pattern open"),
            ("pattern = 'open'", "rate: the pattern open needs one"),
            ("pattern = 'open'\nwait = '1ms..2ms'", "wait: constant arrivals have a rate"),
            ("pattern = 'open'\nrate = 1.0\nperiod = '1s'", "period: only sinusoidal"),
            ("pattern = 'open'\nrate = 1.0\narrivals = 'odd'", "arrivals: there are no `odd`"),
            (
                "pattern = 'open'\narrivals = 'uniform'\nrate = 1.0\nwait = '1ms..2ms'",
                "rate: the waits decide",
            ),
        ] {
            let problem = of(lines).unwrap_err();
            assert!(problem.starts_with(message), "{lines}: {problem}");
        }
    }

    #[test]
    fn a_flag_with_another_pattern_forgets_the_parameters_of_the_plans() {
        let plan = Settings {
            pattern: Some("open".into()),
            rate: Some(10.0),
            close: Some(true),
            ..Settings::default()
        };
        let flags =
            |pattern: &str| Settings { pattern: Some(pattern.into()), ..Settings::default() };
        let serial = behaviour(&flags("serial").or(plan.clone())).unwrap();
        assert_eq!((serial.pattern, serial.keep_alive), (Pattern::Serial, false));
        let long = behaviour(&flags("long").or(plan)).unwrap();
        assert_eq!((long.pattern, long.keep_alive), (Pattern::Closed, true));
    }

    #[test]
    fn what_is_written_down_tells_it_all() {
        let recorded =
            of("pattern = 'open'\narrivals = 'uniform'\nwait = '0s..2ms'").unwrap().record();
        let arrivals = "uniform, 1000 requests/s, waits from 0ns to 2ms".to_owned();
        let expected =
            Clients { pattern: "open".into(), arrivals: Some(arrivals), ..Clients::default() };
        assert_eq!(recorded, expected);
        assert_eq!(of("").unwrap().record(), Clients::default());
        let crowd = of("idle = 3\nslow-readers = 2\nslow-senders = 1\nsources = 4").unwrap();
        let expected = Clients {
            idle: 3,
            slow_readers: 2,
            slow_senders: 1,
            sources: std::num::NonZeroU32::new(4),
            ..Clients::default()
        };
        assert_eq!((crowd.record(), crowd.connections(10)), (expected, 16));
    }
}
