//! Nothing leaks in. What a host asks the machine for has the same answer whenever a seed runs.
//! Otherwise it is refused in a line that names the place.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use duality_runtime::task;
use duality_simulate::{Net, seeds};

/// Set for a process that only tells its answers.
const CHILD: &str = "DUALITY_LEAKS_CHILD";

/// An address of a network for documents (RFC 5737). Nothing is sent there.
const NOWHERE: (&str, u16) = ("192.0.2.1", 9);

type Probe = (&'static str, fn() -> String);

/// What code may ask for, and what it is told.
const PROBES: &[Probe] = &[
    ("Instant::now", || format!("{:?}", Instant::now())),
    ("SystemTime::now", || format!("{:?}", SystemTime::now())),
    ("clock_gettime", || (0..12).map(|clock| by_clock(clock, false)).collect()),
    ("clock_gettime by syscall", || (0..12).map(|clock| by_clock(clock, true)).collect()),
    ("a clock of processor time", || {
        let mut clock = 0;
        // SAFETY: the place has the type that the call writes, and the process is this one.
        unsafe { libc::clock_getcpuclockid(0, &raw mut clock) };
        by_clock(clock, false)
    }),
    ("gettimeofday", || {
        let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the place has the type that the call writes.
        unsafe { libc::gettimeofday(&raw mut now, std::ptr::null_mut()) };
        format!("{}.{:06}", now.tv_sec, now.tv_usec)
    }),
    // SAFETY: no place is given.
    ("time", || unsafe { libc::time(std::ptr::null_mut()) }.to_string()),
    ("clock", || {
        unsafe extern "C" {
            safe fn clock() -> libc::clock_t;
        }
        clock().to_string()
    }),
    ("getrandom", || {
        let mut bytes = [0; 16];
        // SAFETY: the place has this length.
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        format!("{bytes:?}")
    }),
    ("getrandom by syscall", || {
        let mut bytes = [0_u8; 16];
        // SAFETY: the place has this length.
        unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
        format!("{bytes:?}")
    }),
    ("getentropy", || {
        let mut bytes = [0; 16];
        // SAFETY: the place has this length.
        unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) };
        format!("{bytes:?}")
    }),
    ("/dev/urandom", || device("/dev/urandom")),
    ("/dev/random", || device("/dev/random")),
    ("the order of a HashMap", || {
        let map: HashMap<u32, ()> = (0..20).map(|key| (key, ())).collect();
        format!("{:?}", map.keys().collect::<Vec<_>>())
    }),
    ("process::id", || std::process::id().to_string()),
    ("the number of processors", || {
        // SAFETY: the call has no conditions.
        let counted = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        format!("{:?} {counted}", thread::available_parallelism())
    }),
    ("a kernel thread", || {
        let asked = || format!("{:?} {:?}", Instant::now(), HashMap::from([(1, 2), (3, 4)]));
        thread::spawn(asked).join().unwrap()
    }),
    ("a port of std", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("{} {}", listener.local_addr().unwrap(), UdpSocket::bind("127.0.0.1:0").is_ok())
    }),
];

fn by_clock(clock: libc::clockid_t, is_raw: bool) -> String {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place has the type that the call writes.
    unsafe {
        match is_raw {
            false => libc::clock_gettime(clock, &raw mut now).into(),
            true => libc::syscall(libc::SYS_clock_gettime, clock, &raw mut now),
        }
    };
    format!("{}.{:09} ", now.tv_sec, now.tv_nsec)
}

fn device(path: &str) -> String {
    let mut bytes = [0; 16];
    File::open(path).unwrap().read_exact(&mut bytes).unwrap();
    format!("{bytes:?}")
}

/// The answers of a host, a line for each probe of each seed.
fn answers() -> Vec<String> {
    let lines: Vec<String> = (0..3).flat_map(answers_of).collect();
    assert_eq!(lines.len(), 3 * (PROBES.len() + 1));
    lines
}

fn answers_of(seed: u64) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = lines.clone();
    seeds(seed..=seed).once().run(move |net: Net| {
        let told = told.clone();
        async move {
            let host = net.host("host", move || {
                let told = told.clone();
                async move {
                    for (name, probe) in PROBES {
                        let answer = probe();
                        told.lock().unwrap().push(format!("{name}: {answer}"));
                        duality_runtime::time::sleep(Duration::from_millis(7)).await;
                    }
                    let offloaded = task::offload(|| format!("{:?}", Instant::now())).await;
                    told.lock().unwrap().push(format!("offload: {offloaded:?}"));
                }
            });
            host.ended().await
        }
    });
    std::mem::take(&mut *lines.lock().unwrap())
}

#[test]
fn a_child_tells_its_answers() {
    if std::env::var_os(CHILD).is_some() {
        answers().into_iter().for_each(|line| println!("told {line}"));
    }
}

/// Two processes, of which the second one runs beside threads that take all processors.
#[test]
fn each_answer_is_the_same_in_two_processes() {
    let told = || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "leaks::a_child_tells_its_answers", "--nocapture"]);
        let output = child.env(CHILD, "1").current_dir(std::env::temp_dir()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| Some(line.split_once("told ")?.1.to_owned()));
        lines.collect::<Vec<_>>()
    };
    let first = told();
    assert_eq!(first.len(), 3 * (PROBES.len() + 1), "{first:?}");
    let is_over = AtomicBool::new(false);
    let second = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let second = told();
        is_over.store(true, Ordering::Relaxed);
        second
    });
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
    }
    // Seeds differ from one another.
    assert_ne!(first[..PROBES.len()], first[PROBES.len() + 1..2 * PROBES.len() + 1]);
}

/// The failure of a host that does this.
fn refusal(deed: fn()) -> String {
    let failure = seeds(0..1).unshrunk().try_run(move |net: Net| async move {
        let host = net.host("host", move || async move { deed() });
        host.ended().await
    });
    failure.expect_err("this leaves the simulation").why
}

#[test]
fn what_would_leave_the_simulation_is_refused_with_its_place() {
    let deeds: &[(&str, fn())] = &[
        ("sleeps on its kernel thread", || thread::sleep(Duration::from_secs(3600))),
        ("connects by std", || _ = TcpStream::connect(NOWHERE)),
        ("connects by std", || _ = std::os::unix::net::UnixStream::connect("/nowhere")),
        ("accepts by std", || _ = TcpListener::bind("127.0.0.1:0").unwrap().accept()),
        ("sends a datagram by std", || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let _ = socket.send_to(b"out", NOWHERE);
        }),
        ("receives datagrams by std", || {
            let _ = UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0; 8]);
        }),
    ];
    for (what, deed) in deeds {
        let begin = Instant::now();
        let why = refusal(*deed);
        assert!(why.contains(what) && why.contains("leaks.rs:"), "{what}: {why}");
        assert!(!why.contains('\n') && begin.elapsed() < Duration::from_secs(60), "{why}");
    }
}

/// A program of kernel threads sleeps in the simulation's time.
#[test]
fn a_simulated_thread_sleeps_for_an_hour_at_once() {
    let begin = Instant::now();
    let tally = seeds(0..5).run(|net: Net| async move {
        let program = net.program("program", || {
            let begin = Instant::now();
            thread::sleep(Duration::from_secs(3600));
            assert!(begin.elapsed() >= Duration::from_secs(3600));
        });
        program.ended().await
    });
    assert!(tally.time > Duration::from_secs(5 * 3600), "{:?}", tally.time);
    assert!(begin.elapsed() < Duration::from_secs(600));
}
