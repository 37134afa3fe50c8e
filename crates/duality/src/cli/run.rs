//! `duality run`: an unmodified program on user-level threads.

use std::ffi::OsString;
use std::time::Duration;

use duality_lab::Mistake;
use duality_lab::ask::settings::parse_duration;
use duality_runtime::log;

use super::flags::tuning::parse_size;
use super::signals::parse_signal;
use super::{Failure, Party, print};
use crate::run::{self, EngineOptions, Poller, Program, Verdict};

#[derive(clap::Args)]
#[command(
    trailing_var_arg = true,
    after_help = "\
Examples:
  duality run -- memcached -u nobody -p 11211
      memcached, with its threads as user-level threads
  duality run --check /usr/sbin/mariadbd
      whether it will work, from its files
  duality run --stack-size 256k --stats -- ./server 8080
      smaller stacks for threads that do not ask for a size, and counters at
      the end

Each option can be set by its environment variable, for example in a unit of
systemd. A signal ends the program as it would natively, and the exit status is
the program's own."
)]
pub(super) struct Arguments {
    /// Say whether the program will work, and do not start it
    #[arg(long)]
    check: bool,
    /// Print a script by which gdb lists the threads of a running program, with their stacks
    #[arg(long, exclusive = true)]
    gdb_script: bool,
    /// Stacks of threads that do not ask for a size (natively: the limit of `ulimit -s`)
    #[arg(long, value_name = "BYTES", value_parser = parse_size, env = "DUALITY_RUN_STACK_SIZE")]
    stack_size: Option<usize>,
    /// Print counters to standard error when the program ends
    #[arg(long, env = "DUALITY_RUN_STATS")]
    stats: bool,
    /// Check the engine's own lists, queues and hand-overs at every step; slower, to find faults
    #[arg(long, env = "DUALITY_RUN_ASSERTIONS")]
    assertions: bool,
    /// Report system calls that kept all threads waiting for longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_time, env = "DUALITY_RUN_STALL")]
    stall: Option<Duration>,
    /// Processor time between two ticks; the second tick in a thread's turn ends the turn
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10ms",
        value_parser = parse_time,
        env = "DUALITY_RUN_TICK"
    )]
    tick: Duration,
    /// Never interrupt a thread: it runs until it waits
    #[arg(long, env = "DUALITY_RUN_NO_PREEMPT")]
    no_preempt: bool,
    /// Kernel threads that run the program's threads [default: the processors that it may use]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64), env = "DUALITY_RUN_CORES")]
    cores: Option<u16>,
    /// How the engine learns that a thread can go on; where the kernel refuses uring, by epoll
    #[arg(
        long,
        value_name = "POLLER",
        value_enum,
        default_value = "epoll",
        env = "DUALITY_RUN_POLLER"
    )]
    poller: Poller,
    /// Programs that the program starts run on user-level threads too (else natively)
    #[arg(long, env = "DUALITY_RUN_CHILDREN")]
    children: bool,
    /// List all threads with their stacks on standard error when this signal (12, USR2) comes,
    /// unless the program handles it
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal, env = "DUALITY_RUN_DUMP_SIGNAL")]
    dump_signal: Option<i32>,
    /// Search libraries for system calls anew, and keep nothing in the cache folder
    #[arg(long, env = "DUALITY_RUN_NO_CACHE")]
    no_cache: bool,
    /// The program and its arguments
    #[arg(
        required_unless_present = "gdb_script",
        value_name = "PROGRAM",
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// The command, parsed without the others.
#[derive(clap::Parser)]
#[command(
    name = "duality run",
    bin_name = "duality run",
    about = "Run an unmodified program with its threads as user-level threads"
)]
pub(super) struct Alone {
    #[command(flatten)]
    pub(super) arguments: Arguments,
}

/// A length of time that a kernel's timer can keep: `500us`, `10ms`, `1s`.
pub(super) fn parse_time(text: &str) -> Result<Duration, Mistake> {
    let time = parse_duration(text)?;
    if time < Duration::from_micros(100) { Err("at least 100us".into()) } else { Ok(time) }
}

/// Runs the program, or says whether the program would work.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.gdb_script {
        return print(run::GDB_SCRIPT);
    }
    if let Some(reason) = run::unsupported() {
        return Err(Failure::misuse(reason));
    }
    let (name, rest) = arguments.command.split_first().expect("clap requires one");
    let path = run::find(name).ok_or_else(|| {
        Failure::misuse(format!("{}: no such program on the PATH", name.display()))
    })?;
    let program = Program::open(path)?;
    if let Verdict::Refused(reason) = program.verdict()? {
        return Err(Failure::misuse(reason));
    }
    if arguments.check {
        return check(&program);
    }
    if program.is_script() && !arguments.children {
        log::tell(format_args!(
            "duality run: {} is a script for {}; programs that it starts run natively (--children: on user-level threads)",
            program.path.display(),
            program.binary.display()
        ));
    }
    let settings = EngineOptions {
        cores: arguments.cores.unwrap_or_else(run::processors),
        tick: (!arguments.no_preempt).then_some(arguments.tick),
        stack_size: arguments.stack_size.map(|size| size as u64),
        stats: arguments.stats,
        assertions: arguments.assertions,
        stall: arguments.stall,
        poller: arguments.poller,
        children: arguments.children,
        dump_signal: arguments.dump_signal,
        cache: (!arguments.no_cache).then(run::cache).flatten(),
    };
    let error = run::exec(name, rest, &settings);
    let text = format!("{}: {error}", name.display());
    // A limit that leaves no room for the engine is a refusal.
    let refused = error.kind() == std::io::ErrorKind::FileTooLarge;
    Err(if refused { Failure::misuse(text) } else { Failure::new(Party::Machine, text) })
}

/// Lists the system calls of the program and its libraries.
fn check(program: &Program) -> Result<(), Failure> {
    let mut text = String::new();
    let mut calls = 0;
    for object in program.objects()? {
        let finding = run::search(&object)?;
        if let Some(address) = finding.unpatchable.first() {
            return Err(Failure::misuse(format!(
                "{}: the system call at {address:#x} cannot be intercepted; run the program without duality",
                finding.object.display()
            )));
        }
        if finding.calls > 0 {
            text += &format!("{:>6}  {}\n", finding.calls, finding.object.display());
        }
        calls += finding.calls;
    }
    print(&format!(
        "{}: works. {calls} system calls can be intercepted.\nLibraries that are loaded later are \
         checked when they are loaded.\n{text}",
        program.path.display()
    ))
}
