//! `cargo xtask hosts` in use: hosts that answer, a line that delays and loses, a cable that is
//! pulled and plugged. At the end, the rig leaves nothing behind. Most of these tests need root.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio, id};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The longest wait for anything that must come, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hosts of one test alone, removed when the test ends.
struct Hosts {
    name: String,
    network: String,
}

impl Hosts {
    /// Names and addresses for the test `number`, below 8. Other runs on this machine have other
    /// names and addresses.
    fn new(number: u32) -> Self {
        let own = id() % (16 * 256);
        let network = format!("10.{}.{}", 128 + 16 * number + own / 256, own % 256);
        Self { name: format!("t{}-{number}", id()), network }
    }

    /// Makes the hosts. `None` if this machine cannot make them.
    fn up(number: u32, programs: &[&str], options: &[&str]) -> Option<Self> {
        if let Some(lack) = lack(programs) {
            skip(&lack);
            return None;
        }
        let hosts = Self::new(number);
        let made = hosts.command("up", &[&["--network", &hosts.network], options].concat());
        assert!(made.status.success(), "{made:?}");
        Some(hosts)
    }

    fn command(&self, command: &str, options: &[&str]) -> Output {
        xtask(&[&[command][..], options, &["--name", &self.name]].concat())
    }

    fn host(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    fn address(&self, number: u32) -> String {
        format!("{}.{number}", self.network)
    }

    fn path(&self, file: &str) -> String {
        format!("/run/duality-hosts/{}/{file}", self.name)
    }

    fn namespaces(&self) -> Vec<String> {
        let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&format!("{}-", self.name))).collect()
    }

    /// Calls `what` on a host. Its sockets stay on that host, also when another thread uses them
    /// later.
    fn on<T: Send>(&self, number: u32, what: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.host(number)));
        let namespace = namespace.expect("the host is up");
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).expect("root may enter it");
                what()
            });
            entered.join().expect("it works there")
        })
    }

    /// A connection from one host to another: the end that connected, the end that accepted.
    fn connection(&self, from: u32, to: u32) -> (TcpStream, TcpStream) {
        let address = self.address(to);
        let listener = self.on(to, || TcpListener::bind((address.as_str(), 0)).expect("it binds"));
        let address = listener.local_addr().expect("it is bound");
        let start = Instant::now();
        let client = loop {
            // A lossy line can lose every question for the other host's hardware address.
            match self.on(from, || TcpStream::connect_timeout(&address, PATIENCE)) {
                Ok(client) => break client,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
        };
        let (server, _) = listener.accept().expect("it is connected");
        for end in [&client, &server] {
            end.set_nodelay(true).expect("it is TCP");
            end.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
            end.set_write_timeout(Some(PATIENCE)).expect("it is no zero");
        }
        (client, server)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.command("down", &[]);
    }
}

/// Runs `cargo xtask hosts`, for a bounded time.
fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("150").arg(env!("CARGO_BIN_EXE_xtask")).arg("hosts").args(arguments);
    command.output().expect("timeout is there")
}

/// The reason why this machine cannot make hosts with these programs.
fn lack(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(Path::new);
    let missing = |program: &&&str| !places.iter().any(|place| place.join(program).exists());
    if let Some(missing) = ["ip", "nsenter"].iter().chain(programs).find(missing) {
        return Some(format!("needs {missing}"));
    }
    let allowed = Command::new("unshare").args(["--net", "true"]).output();
    (!allowed.is_ok_and(|output| output.status.success()))
        .then(|| "needs the right to make network namespaces".into())
}

/// Prints the reason past the captured output, for `cargo xtask test` to count.
fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Bytes with a period that is no power of two.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

/// Sends from one end to the other, and checks every byte.
fn transfer(mut from: TcpStream, mut to: TcpStream, length: usize) -> Duration {
    let start = Instant::now();
    let sender = thread::spawn(move || from.write_all(&pattern(length)));
    let mut received = Vec::new();
    to.read_to_end(&mut received).expect("the bytes arrive");
    let elapsed = start.elapsed();
    sender.join().expect("it does not panic").expect("the bytes are sent");
    assert!(received == pattern(length), "{} bytes arrived, not as sent", received.len());
    elapsed
}

/// The time of one byte there and back.
fn round_trip(client: &mut TcpStream, server: &mut TcpStream) -> Duration {
    let start = Instant::now();
    let mut byte = [7];
    client.write_all(&byte).expect("it is connected");
    server.read_exact(&mut byte).expect("the byte arrives");
    server.write_all(&byte).expect("it is connected");
    client.read_exact(&mut byte).expect("the byte comes back");
    start.elapsed()
}

#[test]
fn hosts_answer_by_ssh_and_leave_nothing() {
    let options = ["--count", "3", "--ssh"];
    let Some(hosts) = Hosts::up(0, &["sshd", "ssh"], &options) else { return };
    let config = hosts.path("ssh_config");
    let ssh = |words: &[&str]| {
        let mut ssh = Command::new("timeout");
        ssh.args(["60", "ssh", "-F", &config]).args(words).stdin(Stdio::null());
        ssh.output().expect("ssh is there")
    };
    for number in 1..=3 {
        let host = hosts.host(number);
        let output = ssh(&[&host, "hostname"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), host, "{output:?}");
    }
    assert!(ssh(&["web2", "true"]).status.success());
    let unknown = ssh(&["-o", "HostKeyAlias=unknown", &hosts.host(1), "true"]);
    assert_eq!(unknown.status.code(), Some(255), "an unknown key is refused");

    let again = hosts.command("up", &["--network", &hosts.network]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(stderr.contains(&format!("hosts down --name {}", hosts.name)), "{stderr}");
    let listed = hosts.command("list", &[]);
    let listed = String::from_utf8_lossy(&listed.stdout);
    for part in [&hosts.host(3), &hosts.address(3), "sshd ", "nsenter --net=", &config] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }

    // A process on a host that ignores SIGTERM and belongs to no daemon.
    let stubborn = "trap '' TERM; echo ready; exec sleep 1000";
    let mut stubborn = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{}", hosts.host(2)))
        .args(["sh", "-c", stubborn])
        .stdout(Stdio::piped())
        .spawn()
        .expect("nsenter is there");
    let mut ready = [0; 5];
    let began = stubborn.stdout.as_mut().expect("it is piped").read_exact(&mut ready);
    began.expect("it starts");
    let namespaces = hosts.namespaces();
    assert_eq!(namespaces.len(), 4, "{namespaces:?}");
    let links: BTreeSet<String> = namespaces
        .iter()
        .map(|name| fs::metadata(format!("/run/netns/{name}")).expect("it is there").ino())
        .map(|inode| format!("net:[{inode}]"))
        .collect();
    let down = hosts.command("down", &[]);
    assert!(down.status.success(), "{down:?}");
    assert!(!stubborn.wait().expect("it is our child").success(), "it was ended");
    assert_eq!(hosts.namespaces(), [""; 0]);
    assert!(!Path::new("/sys/class/net").join(&hosts.name).exists(), "the interface is gone");
    assert!(!Path::new(&hosts.path("")).exists(), "the folder is gone");
    for process in fs::read_dir("/proc").expect("it is there").flatten() {
        if let Ok(link) = fs::read_link(process.path().join("ns/net")) {
            let link = link.to_string_lossy().into_owned();
            assert!(!links.contains(&link), "{} is left", process.path().display());
        }
    }
    assert!(hosts.command("down", &[]).status.success(), "nothing to remove is no failure");
    assert_eq!(hosts.command("list", &[]).status.code(), Some(1));
}

#[test]
fn a_pulled_cable_stalls_a_transfer_and_a_plugged_one_revives_it() {
    let Some(hosts) = Hosts::up(1, &[], &["--count", "2"]) else { return };
    let (client, server) = hosts.connection(1, 2);
    transfer(client, server, 3_000_000);

    let (mut client, mut server) = hosts.connection(1, 2);
    round_trip(&mut client, &mut server);
    assert!(hosts.command("cut", &["2"]).status.success());
    let listed = hosts.command("list", &[]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(" cut"), "{listed:?}");
    client.write_all(&[1]).expect("the kernel keeps the byte");
    server.set_read_timeout(Some(Duration::from_secs(2))).expect("it is no zero");
    let stalled = server.read(&mut [0]).expect_err("nothing gets through");
    assert_eq!(stalled.kind(), ErrorKind::WouldBlock, "{stalled}");
    assert!(hosts.command("join", &["2"]).status.success());
    server.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
    let mut byte = [0];
    server.read_exact(&mut byte).expect("the kernel sends it again");
    assert_eq!(byte, [1]);
    transfer(server, client, 3_000_000);

    let absent = hosts.command("cut", &["3"]);
    assert_eq!(absent.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&absent.stderr);
    assert!(stderr.contains("no host 3: they are 1 to 2"), "{stderr}");
}

#[test]
fn a_line_delays_a_round_trip_and_limits_the_rate() {
    let options = ["--count", "3", "--delay", "20ms", "--rate", "20mbit"];
    let Some(hosts) = Hosts::up(2, &["ethtool", "cc"], &options) else { return };
    let (mut client, mut server) = hosts.connection(3, 1);
    let fastest = (0..10).map(|_| round_trip(&mut client, &mut server)).min();
    let fastest = fastest.expect("there are ten");
    assert!(fastest >= Duration::from_millis(20), "a round trip of {fastest:?}");
    // A lower bound holds on busy machines too: bits never leave before their time. The test sends
    // both ways, since each direction has its queue.
    let least = Duration::from_secs_f64(1e6 * 8.0 / 20e6);
    let elapsed = transfer(client, server, 1_000_000);
    assert!(elapsed >= least, "{elapsed:?}");
    let (client, server) = hosts.connection(3, 1);
    let elapsed = transfer(server, client, 1_000_000);
    assert!(elapsed >= least, "{elapsed:?}");

    // The other hosts have no line between them: one quick round trip shows this.
    let (mut client, mut server) = hosts.connection(2, 1);
    let start = Instant::now();
    while round_trip(&mut client, &mut server) >= Duration::from_millis(20) {
        assert!(start.elapsed() < PATIENCE, "no round trip of 20 ms between hosts 1 and 2");
    }
}

#[test]
fn a_line_loses_packets_and_tcp_mends_it() {
    let options = ["--count", "2", "--loss", "10%"];
    let Some(hosts) = Hosts::up(3, &["ethtool", "cc"], &options) else { return };
    let (client, server) = hosts.connection(2, 1);
    transfer(client, server, 100_000);

    let address = hosts.address(1);
    let bind = |address: &str| UdpSocket::bind((address, 0)).expect("it binds");
    let receiver = hosts.on(1, || bind(&address));
    let sender = hosts.on(2, || bind("0.0.0.0"));
    let to = receiver.local_addr().expect("it is bound");
    // The messages are few, so that the receiver's buffer holds all of them.
    for number in 0..200_u8 {
        sender.send_to(&[number], to).expect("it is sent");
    }
    receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("it is no zero");
    let mut numbers = BTreeSet::new();
    let mut byte = [0];
    while receiver.recv(&mut byte).is_ok() {
        assert!(numbers.insert(byte[0]), "{} came twice", byte[0]);
    }
    // By chance, all messages arrive in one of a thousand million runs.
    assert!((1..200).contains(&numbers.len()), "{} of 200 arrived", numbers.len());
}

#[test]
fn slurm_runs_a_command_on_the_host_that_is_named() {
    let programs = ["munged", "slurmctld", "slurmd", "srun"];
    let Some(hosts) = Hosts::up(4, &programs, &["--count", "3", "--slurm"]) else { return };
    for number in [2, 3] {
        let host = hosts.host(number);
        let mut srun = Command::new("timeout");
        srun.args(["60", "srun", "-w", &host, "-N1", "-n1", "sh", "-c", "hostname; cat"]);
        srun.env("SLURM_CONF", hosts.path("slurm.conf"));
        srun.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut srun = srun.spawn().expect("timeout is there");
        srun.stdin.take().expect("it is piped").write_all(b"input\n").expect("it reads");
        let output = srun.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{host}\ninput\n"));
    }
    // A running job: its srun is on this machine, and `down` must end it.
    let mut srun = Command::new("timeout");
    srun.args(["60", "srun", "-w", &hosts.host(1), "-N1", "-n1"]);
    srun.args(["sh", "-c", "echo ready; exec sleep 1000"]);
    srun.env("SLURM_CONF", hosts.path("slurm.conf")).stdout(Stdio::piped());
    let mut srun = srun.spawn().expect("timeout is there");
    let began = srun.stdout.as_mut().expect("it is piped").read_exact(&mut [0; 5]);
    began.expect("the job starts");
    assert!(hosts.command("down", &[]).status.success());
    let ended = srun.wait().expect("it is our child");
    assert_ne!(ended.code(), Some(124), "srun waits for ever");
}

#[test]
fn a_half_made_rig_is_removed() {
    if let Some(lack) = lack(&[]) {
        return skip(&lack);
    }
    let hosts = Hosts::new(5);
    let ip = |line: &str| {
        let output = Command::new("ip").args(line.split(' ')).output();
        assert!(output.expect("ip is there").status.success(), "ip {line}");
    };
    // This interface has the name of the last interface that `up` makes.
    ip(&format!("link add {} type veth peer name {}p", hosts.name, hosts.name));
    let failed = hosts.command("up", &["--network", &hosts.network, "--count", "2"]);
    let left = hosts.namespaces();
    // The command fails if `up` has removed an interface that it did not make.
    ip(&format!("link del {}", hosts.name));
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("File exists"), "{failed:?}");
    assert_eq!(left, [""; 0]);
    assert!(!Path::new(&hosts.path("")).exists(), "the folder is gone");
}

#[test]
fn misuse_ends_with_exit_code_2() {
    for line in [
        "",
        "over",
        "cut",
        "cut x",
        "cut 0",
        "cut 1 2",
        "down --ssh",
        "up 3",
        "up --count",
        "up --count 0",
        "up --count 101",
        "up --name Duality",
        "up --name a-name-of-15-bytes",
        "up --network 10.77",
        "up --network 10.77.0.1",
        "up --network 127.0.0",
        "up --network 10.77.256",
        "up --delay 20",
        "up --delay -1ms",
        "up --delay 1e3ms",
        "up --delay infs",
        "up --delay 11s",
        "up --loss 1",
        "up --loss 101%",
        "up --rate 100",
        "up --rate 0mbit",
    ] {
        let output = xtask(&line.split_terminator(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.lines().count() == 1 && stderr.len() > 10, "{line}: {stderr}");
    }
    let help = xtask(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--slurm"));
}
