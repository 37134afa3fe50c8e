//! Whether a control group's CPU quota delayed this process.
//!
//! When a quota runs out, the kernel stops all threads of the group for the rest of a period
//! (Documentation/scheduler/sched-bwc.rst). The threads cannot tell this from a busy processor.
//!
//! Version 2 has `cpu.max` and `cpu.stat` in each group. Version 1 has `cpu.cfs_quota_us`,
//! `cpu.cfs_period_us` and `cpu.stat` beneath the controller's own mount. A group above this
//! process's group may have a quota too.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The control groups of this process that may have a quota, and the number of times that each ran
/// out.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Vec<(PathBuf, u64)>);

/// An exhausted quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exhausted {
    /// The directory of the control group.
    pub group: PathBuf,
    /// The quota in processors. `None` if the kernel does not report it.
    pub processors: Option<f64>,
    /// The number of periods in which it ran out.
    pub times: u64,
}

impl Quotas {
    /// The kernel's present counters. Empty if there are no control groups.
    #[must_use]
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let groups = groups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let known = groups.into_iter().filter_map(|group| {
            let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
            Some((group, throttled(&stat)?))
        });
        Self(known.collect())
    }

    /// The quota that ran out most often since `earlier`, if one did.
    #[must_use]
    pub fn exhausted_since(&self, earlier: &Self) -> Option<Exhausted> {
        let grown = self.0.iter().filter_map(|(group, times)| {
            let before = earlier.0.iter().find(|(other, _)| other == group)?.1;
            Some((group, times.checked_sub(before).filter(|times| *times > 0)?))
        });
        let (group, times) = grown.max_by_key(|(_, times)| *times)?;
        Some(Exhausted { group: group.clone(), processors: processors(group), times })
    }
}

impl Exhausted {
    /// The event and the remedy, as the end of a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        let Self { group, processors, times } = self;
        let quota = processors
            .map_or(String::new(), |processors| format!(" of {processors:.2} processors"));
        let plural = if *times == 1 { "once" } else { &format!("{times} times") };
        format!(
            "the CPU quota{quota} of the control group {} ran out {plural}, and everything in it stood still. Raise the quota \
             (`cpu.max`, or `cpu.cfs_quota_us`), or measure outside of the group",
            group.display()
        )
    }
}

/// The directories of the groups with the CPU controller: this process's group first, then the
/// groups above it.
fn groups(of_process: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in of_process.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_unified = controllers.is_empty();
        if !is_unified && !controllers.split(',').any(|one| one == "cpu") {
            continue;
        }
        let mount = mounts.lines().filter_map(Mount::read).find(|mount| match is_unified {
            true => mount.kind == "cgroup2",
            false => mount.kind == "cgroup" && mount.options.split(',').any(|one| one == "cpu"),
        });
        let Some(mount) = mount else { continue };
        // If a container sees only a part of the tree, the mount begins at that part.
        let below = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(""));
        let top = Path::new(mount.point);
        found.extend(below.ancestors().map(|group| top.join(group)));
    }
    found
}

/// A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut system = system.split(' ');
        Some(Self {
            root: mount.next()?,
            point: mount.next()?,
            kind: system.next()?,
            options: system.nth(1)?,
        })
    }
}

/// The number of periods in which a group's quota ran out, from its `cpu.stat`.
fn throttled(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
}

/// The quota of a group, in processors.
fn processors(group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    match read("cpu.max") {
        Some(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            share(quota, period)
        }
        None => share(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
    }
}

/// A quota divided by its period. `None` if there is no limit, which is `max` or -1.
fn share(quota: &str, period: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    Some(number(quota)? / number(period)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_with_those_above_them() {
        let mounts = "31 25 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      32 25 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      33 25 0:29 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let of_process = "9:cpuset:/x\n1:cpu,cpuacct:/a/b\n0::/c\n";
        let found = groups(of_process, mounts);
        let expected = ["cpu/a/b", "cpu/a", "cpu/", "unified/c", "unified/"];
        assert_eq!(found, expected.map(|path| Path::new("/sys/fs/cgroup").join(path)));
        // In a container without its own namespace, the mount begins where its group does.
        let mounts = "33 25 0:29 /pod/one /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        let found = groups("0::/pod/one/inner\n", mounts);
        assert_eq!(found, ["/sys/fs/cgroup/inner", "/sys/fs/cgroup/"].map(PathBuf::from));
        assert!(groups("", "").is_empty() && groups("nonsense", "x - y").is_empty());
    }

    #[test]
    fn a_quota_that_ran_out_is_named() {
        let at = |times| Quotas(vec![("/no/such/group".into(), times), ("/x".into(), 4)]);
        assert_eq!(at(7).exhausted_since(&at(7)), None);
        let found = at(19).exhausted_since(&at(7)).unwrap();
        assert_eq!((found.times, found.processors), (12, None));
        let sentence = Exhausted { processors: Some(0.3), ..found }.told();
        assert!(
            sentence.contains(
                "of 0.30 processors of the control group /no/such/group ran out 12 times"
            ),
            "{sentence}"
        );
        assert_eq!(share("30000", "100000\n"), Some(0.3));
        assert_eq!((share("max", "100000"), share("-1\n", "100000\n")), (None, None));
        assert_eq!(throttled("nr_periods 9\nnr_throttled 3\nthrottled_time 7\n"), Some(3));
        assert_eq!(throttled("usage_usec 9\n"), None);
    }
}
