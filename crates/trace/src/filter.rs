//! Which requests of a log count: by time, path, status and agent.

use std::str::FromStr;

use crate::mistake::Mistake;

/// A choice of requests. The default takes all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// From this time on, in microseconds since 1970.
    pub since: Option<i64>,
    /// Up to this time.
    pub until: Option<i64>,
    /// Only these paths, any of them. Empty: all.
    pub paths: Vec<Glob>,
    /// Only these statuses. `None`: all.
    pub statuses: Option<StatusSet>,
    /// Only agents that contain one of these texts. Empty: all.
    pub agents: Vec<String>,
    /// No agent that contains one of these texts.
    pub other_agents: Vec<String>,
}

impl Filter {
    /// Whether the filter takes all requests.
    pub fn is_open(&self) -> bool {
        let Self { since, until, paths, statuses, agents, other_agents } = self;
        since.is_none()
            && until.is_none()
            && statuses.is_none()
            && paths.is_empty()
            && agents.is_empty()
            && other_agents.is_empty()
    }

    /// Whether a request counts.
    pub(crate) fn takes(&self, time: i64, path: &str, status: u16, agent: &[u8]) -> bool {
        let contains = |text: &String| {
            let (text, agent) = (text.to_ascii_lowercase(), agent.to_ascii_lowercase());
            memchr::memmem::find(&agent, text.as_bytes()).is_some()
        };
        self.since.is_none_or(|since| time >= since)
            && self.until.is_none_or(|until| time < until)
            && (self.paths.is_empty() || self.paths.iter().any(|glob| glob.fits(path)))
            && self.statuses.as_ref().is_none_or(|statuses| statuses.has(status))
            && (self.agents.is_empty() || self.agents.iter().any(contains))
            && !self.other_agents.iter().any(contains)
    }
}

/// The time of a stamp such as `2026-11-28T17:00:00Z`, in microseconds since 1970.
///
/// # Errors
///
/// One line.
pub fn time(text: &str) -> Result<i64, Mistake> {
    crate::clock::rfc3339(text)
        .ok_or_else(|| format!("{text} is no time such as 2026-11-28T17:00:00Z").into())
}

/// A path in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<String>);

impl FromStr for Glob {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match text.starts_with(['/', '*']) {
            true => Ok(Self(text.split('*').map(str::to_owned).collect())),
            false => Err("a path begins with / or *, such as /api/*".into()),
        }
    }
}

impl Glob {
    fn fits(&self, path: &str) -> bool {
        let [first, rest @ ..] = self.0.as_slice() else { return false };
        let Some(mut path) = path.strip_prefix(first.as_str()) else { return false };
        let Some((last, between)) = rest.split_last() else { return path.is_empty() };
        for part in between {
            let Some(at) = path.find(part.as_str()) else { return false };
            path = &path[at + part.len()..];
        }
        path.ends_with(last.as_str())
    }
}

/// Statuses: `404`, `4xx`, `200-299`, and several of them with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

impl FromStr for StatusSet {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let part = |part: &str| {
            let number =
                |text: &str| text.parse::<u16>().ok().filter(|one| (100..1000).contains(one));
            let class = part.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
            let ends = match (class, part.split_once('-')) {
                (Some(class), _) if (1..=9).contains(&class) => {
                    Some((100 * class, 100 * class + 99))
                }
                (_, Some((one, other))) => number(one).zip(number(other)),
                _ => number(part).map(|one| (one, one)),
            };
            ends.ok_or_else(|| format!("{part} is no status: give 404, 4xx or 200-299").into())
        };
        text.split(',').map(part).collect::<Result<Vec<_>, Mistake>>().map(Self)
    }
}

impl StatusSet {
    fn has(&self, status: u16) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_globs() {
        for (glob, path, fits) in [
            ("/api/*", "/api/x/y", true),
            ("/api/*", "/api", false),
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("*.js", "/x/y.js", true),
            ("*.js", "/x/y.json", false),
            ("/a*b*c", "/axxbyyc", true),
            ("/a*b*c", "/acb", false),
            ("*", "", true),
        ] {
            assert_eq!(glob.parse::<Glob>().unwrap().fits(path), fits, "{glob} {path}");
        }
        assert!("api".parse::<Glob>().is_err());
    }

    #[test]
    fn statuses_are_numbers_classes_and_ranges() {
        let set: StatusSet = "200,4xx,500-503".parse().unwrap();
        let found: Vec<u16> =
            [200, 201, 404, 499, 500, 503, 504].into_iter().filter(|one| set.has(*one)).collect();
        assert_eq!(found, [200, 404, 499, 500, 503]);
        for wrong in ["", "2000", "xx", "0xx", "200-", "ok"] {
            assert!(wrong.parse::<StatusSet>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_condition_leaves_requests_out() {
        let taken = |filter: Filter| filter.takes(1_000, "/a", 200, b"Mozilla Bot/1");
        assert!(Filter::default().is_open() && taken(Filter::default()));
        let only = |filter: Filter| {
            assert!(!filter.is_open());
            taken(filter)
        };
        assert!(!only(Filter { since: Some(1_001), ..Filter::default() }));
        assert!(!only(Filter { until: Some(1_000), ..Filter::default() }));
        assert!(!only(Filter { paths: vec!["/b".parse().unwrap()], ..Filter::default() }));
        assert!(!only(Filter { statuses: Some("404".parse().unwrap()), ..Filter::default() }));
        assert!(!only(Filter { agents: vec!["curl".into()], ..Filter::default() }));
        assert!(!only(Filter { other_agents: vec!["bot".into()], ..Filter::default() }));
        assert!(only(Filter { agents: vec!["mozilla".into()], ..Filter::default() }));
    }
}
