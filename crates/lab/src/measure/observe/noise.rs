//! Disturbances on the processors of a measurement: steal by the hypervisor, strangers, soft
//! interrupts that wait, and the quota of a control group.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use duality_load::Quotas;

use crate::record::{Disturbance, Processor};

/// The processor time that the measurement itself has used so far. The caller knows this time
/// exactly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) servers: Duration,
    pub(crate) client: Duration,
}

/// Looks at processors from one moment to the next.
pub(crate) struct NoiseMeter {
    /// The processors, and whether each is the servers'. Without pinning, all processors of the
    /// machine count as the servers'.
    cpus: Vec<(usize, bool)>,
    is_pinned: bool,
    /// The kernel threads of their soft interrupts.
    soft_interrupts: BTreeMap<usize, u32>,
    /// The kernel charges the time of a soft interrupt to the interrupted process. The sign of such
    /// time: the measurement used more time than all processes together, without soft interrupts.
    counts_interrupts_as_processes: bool,
    last: Option<Moment>,
}

struct Moment {
    at: Instant,
    used: Used,
    ticks: BTreeMap<usize, Ticks>,
    waited: BTreeMap<usize, Duration>,
    quotas: Quotas,
}

/// The counts of a processor in /proc/stat (proc_stat(5)), in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    /// In user mode, nice, and system.
    processes: f64,
    interrupts: f64,
    steal: f64,
}

impl NoiseMeter {
    pub(crate) fn new(server_cpus: &[usize], client_cpus: &[usize]) -> Self {
        let is_pinned = !server_cpus.is_empty() || !client_cpus.is_empty();
        let cpus: Vec<(usize, bool)> = if is_pinned {
            let servers = server_cpus.iter().map(|&cpu| (cpu, true));
            servers.chain(client_cpus.iter().map(|&cpu| (cpu, false))).collect()
        } else {
            read_ticks().into_keys().map(|cpu| (cpu, true)).collect()
        };
        let soft_interrupts = soft_interrupts(&cpus);
        Self { cpus, is_pinned, soft_interrupts, counts_interrupts_as_processes: false, last: None }
    }

    /// The disturbance since the last look. The first look has none. `used` is the time that the
    /// measurement has used so far.
    pub(crate) fn since_last(&mut self, used: Used) -> Disturbance {
        let waited = self.soft_interrupts.iter().map(|(&cpu, &pid)| (cpu, run_queue_wait(pid)));
        let now = Moment {
            at: Instant::now(),
            used,
            ticks: read_ticks(),
            waited: waited.collect(),
            quotas: Quotas::read(),
        };
        let last = self.last.replace(now);
        let (Some(last), Some(now)) = (last, &self.last) else { return Disturbance::default() };
        let seconds = now.at.duration_since(last.at).as_secs_f64();
        let since: BTreeMap<usize, Ticks> = self
            .cpus
            .iter()
            .filter_map(|(cpu, _)| Some((*cpu, now.ticks.get(cpu)?.since(last.ticks.get(cpu)?))))
            .collect();
        if seconds <= 0.0 || since.is_empty() {
            return Disturbance::default();
        }
        let own = |is_of_servers: bool| {
            let servers = now.used.servers.saturating_sub(last.used.servers).as_secs_f64();
            let client = now.used.client.saturating_sub(last.used.client).as_secs_f64();
            match (self.is_pinned, is_of_servers) {
                (false, _) => servers + client,
                (true, true) => servers,
                (true, false) => client,
            }
        };
        let sum = |is_of_servers: bool, of: fn(&Ticks) -> f64| -> f64 {
            let cpus = self.cpus.iter().filter(|(_, own)| *own == is_of_servers);
            cpus.filter_map(|(cpu, _)| since.get(cpu)).map(of).sum()
        };
        let hidden = |is_of_servers| {
            own(is_of_servers) - sum(is_of_servers, |ticks| ticks.processes) > 0.03 * seconds
        };
        let counts_interrupts_as_processes =
            self.counts_interrupts_as_processes || hidden(true) || hidden(false);
        let busy: fn(&Ticks) -> f64 = if counts_interrupts_as_processes {
            |ticks| ticks.processes + ticks.interrupts
        } else {
            |ticks| ticks.processes
        };
        let processor = |&(cpu, is_of_servers): &(usize, bool)| {
            let ticks = since.get(&cpu)?;
            // If a side has several processors, each gets its part of the side's time.
            let all = sum(is_of_servers, busy);
            let own = if all > 0.0 { own(is_of_servers) * busy(ticks) / all } else { 0.0 };
            let waited = now.waited.get(&cpu).zip(last.waited.get(&cpu));
            let waited = waited.map_or(0.0, |(now, last)| now.saturating_sub(*last).as_secs_f64());
            let share = |part: f64| (part / seconds).clamp(0.0, 1.0);
            Some(Processor {
                host: None,
                cpu,
                is_of_servers,
                stolen: share(ticks.steal),
                strangers: share(busy(ticks) - own),
                soft_interrupts_waited: share(waited),
            })
        };
        let processors = self.cpus.iter().filter_map(processor).collect();
        self.counts_interrupts_as_processes = counts_interrupts_as_processes;
        let quota = now.quotas.exhausted_since(&last.quotas);
        Disturbance { seconds, processors, quota }
    }
}

impl Ticks {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            processes: self.processes - earlier.processes,
            interrupts: self.interrupts - earlier.interrupts,
            steal: self.steal - earlier.steal,
        }
    }
}

fn read_ticks() -> BTreeMap<usize, Ticks> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_ticks(&text, rustix::param::clock_ticks_per_second() as f64)
}

fn parse_ticks(text: &str, per_second: f64) -> BTreeMap<usize, Ticks> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        // The first line has the sums of all processors, and no number.
        let cpu = line.as_bytes().get(3)?.is_ascii_digit().then(|| words.next())??.parse().ok()?;
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        let of = |place: usize| numbers.get(place).copied().unwrap_or(0.0) / per_second;
        let ticks =
            Ticks { processes: of(0) + of(1) + of(2), interrupts: of(5) + of(6), steal: of(7) };
        Some((cpu, ticks))
    };
    text.lines().filter_map(line).collect()
}

/// The numbers of the processes called ksoftirqd/CPU.
fn soft_interrupts(cpus: &[(usize, bool)]) -> BTreeMap<usize, u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let cpu: usize = name.trim().strip_prefix("ksoftirqd/")?.parse().ok()?;
            cpus.iter().any(|(known, _)| *known == cpu).then_some((cpu, pid))
        })
        .collect()
}

/// How long a process was ready to run without a processor (sched-stats.rst).
fn run_queue_wait(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_found_in_stat() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 40 999 7 1 4 25 0 0\ncpu12 0 0 0 5\nintr 5\n";
        let ticks = parse_ticks(text, 100.0);
        assert_eq!(ticks[&0], Ticks { processes: 1.5, interrupts: 0.05, steal: 0.25 });
        assert_eq!(ticks[&12], Ticks::default());
        assert_eq!(ticks.len(), 2);
    }

    #[test]
    fn who_burns_a_processor_is_a_stranger_unless_it_is_our_own() {
        let mut meter = NoiseMeter::new(&[], &[]);
        meter.since_last(Used::default());
        let (begun, mut sum) = (Instant::now(), 0_u64);
        while begun.elapsed() < Duration::from_millis(200) {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        let own = meter.since_last(Used { servers: Duration::ZERO, client: begun.elapsed() });
        assert!(own.seconds >= 0.2 && !own.processors.is_empty(), "{own:?} {sum}");
        let stranger = |found: &Disturbance| -> f64 {
            found.processors.iter().map(|processor| processor.strangers).sum()
        };
        // Other tests run beside this test, and count as strangers. So the value must only be
        // within bounds.
        assert!((0.0..=own.processors.len() as f64).contains(&stranger(&own)));
    }
}
