//! Tests `duality run`: limits of the torture suite natively and on the engine, refusals, and real
//! programs.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use duality_conformance::ServerProcess;
use duality_conformance::programs::{Program, compile, finish, folder, torture};
use rustix::process::Signal;

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Runs `duality run` with these arguments.
fn run(arguments: &[&str]) -> Output {
    finish(Command::new(DUALITY).arg("run").args(arguments))
}

fn refused(arguments: &[&str], reason: &str) {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.contains(reason) && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
}

#[test]
fn a_program_is_itself() {
    let output = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "err\n");
}

#[test]
fn a_script_that_is_not_executable_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let script = place.path().join("script");
    std::fs::write(&script, "#!/bin/sh\necho\n").expect("written");
    let script = script.to_str().expect("a name");
    refused(&["--", script], "chmod +x");
    refused(&["--check", script], "chmod +x");
}

#[test]
fn a_program_with_a_sanitizer_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("nothing.c"), place.path().join("nothing"));
    let name = program.to_str().expect("a name");
    for (flag, sanitizer) in
        [("-fsanitize=address", "AddressSanitizer"), ("-fsanitize=leak", "LeakSanitizer")]
    {
        std::fs::write(&file, "int main(void) { return 0; }\n").expect("written");
        compile(std::slice::from_ref(&file), &[flag], &program);
        refused(&["--", name], sanitizer);
        refused(&["--check", name], sanitizer);
    }
    // clang links the runtime into the program: the start of ThreadSanitizer's runtime is one of
    // its functions.
    std::fs::write(&file, "void __tsan_init(void) {}\nint main(void) { return 0; }\n")
        .expect("written");
    compile(&[file], &["-rdynamic"], &program);
    refused(&["--", name], "clang's ThreadSanitizer");
    refused(&["--check", name], "clang's ThreadSanitizer");
}

#[test]
fn a_small_stack_is_the_programs_and_not_the_commands() {
    let shell = "ulimit -s 64; exec \"$0\" run -- sh -c 'ulimit -s; exit 7'";
    let output = finish(Command::new("sh").args(["-c", shell, DUALITY]));
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(7), &b"64\n"[..]),
        "{output:?}"
    );
}

#[test]
fn a_server_with_processes_starts_with_a_small_stack() {
    let shell = "ulimit -s 64; exec \"$0\" serve echo --listen 127.0.0.1:0 --architecture fork";
    let server = ServerProcess::start(Command::new("sh").args(["-c", shell, DUALITY]));
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn threads_are_user_level_threads() {
    // Natively, a thread that sleeps is a second task of the kernel.
    let program = Program::new("sleeping", &["-pthread"]);
    let native = finish(&mut Command::new(program.path()));
    assert_eq!(String::from_utf8_lossy(&native.stdout), "Threads:\t21\n");
    let ours = run(&["--cores=1", "--", program.name()]);
    let stdout = String::from_utf8_lossy(&ours.stdout);
    let threads: usize = stdout.trim_start_matches("Threads:").trim().parse().expect("a number");
    assert!(threads <= 3, "{threads} kernel threads");
}

#[test]
fn without_io_uring_the_engine_says_so_and_is_on_epoll() {
    let program = Program::new("forbid_rings", &[]);
    let mut command = Command::new(program.path());
    command.args([DUALITY, "run", "--poller", "uring", "--"]).arg(torture());
    let output = finish(command.arg("receive_by_many_from_one_socket"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("--poller epoll") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn statistics_are_printed_at_the_end() {
    let output = run(&["--stats", "--", torture().to_str().expect("a name"), "ping_pong"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("threads 1 created, 2 at most"), "{stderr}");
    assert!(stderr.contains("parks by call: futex "), "{stderr}");
}

#[test]
fn a_thread_that_has_just_begun_its_turn_keeps_it() {
    let program = Program::new("turns", &["-pthread", "-O1"]);
    let preemptions_with = |yields: &[&str]| {
        let options = ["--stats", "--cores", "1", "--tick", "2ms", "--", program.name()];
        let output = run(&[&options[..], yields].concat());
        assert!(output.status.success(), "{output:?}");
        preemptions(&output)
    };
    let (short_turns, long_turns) = (preemptions_with(&["yields"]), preemptions_with(&[]));
    assert!(short_turns < long_turns / 2, "{short_turns} preemptions, and {long_turns}");
}

#[test]
fn threads_that_wake_go_before_those_that_compute() {
    // Round trips through two pipes beside two threads that compute: without precedence, each
    // direction waits for the turns of these threads.
    let program = Program::new("waking", &["-pthread", "-O1"]);
    let output = run(&["--stats", "--cores", "1", "--tick", "2ms", "--", program.name()]);
    let preemptions = preemptions(&output);
    assert!(output.status.success() && preemptions < 500, "{preemptions} preemptions");
}

/// The preemptions that `--stats` has counted.
fn preemptions(output: &Output) -> u32 {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = stderr.split_once("preemptions ").expect("a counter");
    rest.split(';').next().expect("a number").parse().expect("a number")
}

#[test]
fn calls_that_need_not_wait_need_no_helper() {
    let program = Program::new("at_once", &["-lrt"]);
    let output = run(&["--stats", "--", program.name()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("offloads 0;"), "{stderr}");
}

#[test]
fn what_cannot_work_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let source = place.path().join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let program = place.path().join("static");
    compile(std::slice::from_ref(&source), &["-static"], &program);
    refused(&["--", program.to_str().expect("a name")], "statically linked");
    refused(&["--check", program.to_str().expect("a name")], "statically linked");
    refused(&["--", source.to_str().expect("a name")], "neither ELF nor a script");
    refused(&["--", "no-such-program"], "no such program");
    refused(&["--cores", "0", "--", "true"], "0 is not in 1..=64");
    refused(&["--tick", "5", "--", "true"], "5 has no unit: write 5s");
    refused(&["--tick", "1us", "--", "true"], "at least 100us");
}

#[test]
fn a_check_starts_nothing() {
    let output = run(&["--check", "/bin/sh"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("works") && stdout.contains("libc.so.6"),
        "{stdout}"
    );
}

#[test]
fn children_run_natively_unless_asked_otherwise() {
    // The last command of a shell may replace the shell. That command would then be the program.
    let maps = "grep -c duality-text /proc/self/maps; true";
    for (options, natively) in [(&[][..], true), (&["--children"][..], false)] {
        let output = run(&[options, &["--", "sh", "-c", maps]].concat());
        let count = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(count == "0", natively, "{options:?}: {count}");
    }
}

#[test]
fn a_binary_is_compared_with_itself() {
    let check = |arguments: &[&str]| {
        finish(Command::new(DUALITY).args(["compare", "--check", "--binary"]).args(arguments))
    };
    let output = check(&["/bin/sh -c 'exec server {port}'", "--url", "http://127.0.0.1:{port}/x"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("native, duality-run"), "{said}");
    for (command, problem) in
        [("/bin/sh", "put {port}"), ("/no/such/server {port}", "no such program")]
    {
        let output = check(&[command]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(problem), "{command}: {said}");
    }
}

#[test]
fn a_load_command_makes_the_load_and_the_lab_measures_the_server() {
    let place = tempfile::tempdir().expect("a folder");
    let path = |name: &str| place.path().join(name);
    let compile_to = |source: PathBuf, name: &str| compile(&[source], &["-pthread"], &path(name));
    compile_to(folder("../../examples/c/server.c"), "server");
    compile_to(folder("programs/requests.c"), "load");
    std::fs::create_dir(path("site")).expect("a folder");
    std::fs::write(path("site/index.html"), "hello").expect("written");
    let compare = |arguments: &[&str]| {
        let mut command = Command::new(DUALITY);
        command.current_dir(place.path()).args(["compare", "--binary", "./server {port} site"]);
        finish(command.args(arguments))
    };
    // Relative paths start at the caller's directory.
    let load = ["--load-command", "./load {port} {connections}", "-c", "5", "--tick", "2ms"];
    let output =
        compare(&[&load[..], &["--repeats", "1", "--blocks", "1", "--out", "out"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read_to_string(path("out/results.jsonl")).expect("results");
    let (mut cells, mut blocks) = (0, 0);
    for line in results.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        match line["kind"].as_str() {
            Some("experiment") => {
                assert_eq!(line["design"]["load_command"][0], "./load");
                assert_eq!(line["design"]["service"], "server");
                let run = line["design"]["peers"][1]["command"].to_string();
                assert!(run.contains(r#""run","--tick=2000us","--","./server""#), "{run}");
            }
            Some("cell") => {
                cells += 1;
                assert_eq!((&line["outcome"], &line["requests"]), (&"measured".into(), &5.into()));
                assert_eq!(line["latency_us"]["p99"], 250.0);
                assert!(line["server_peak_bytes"].as_u64() > Some(0), "{line}");
            }
            _ => {
                blocks += 1;
                assert_eq!(line["slices"].as_array().expect("a block").len(), 4);
                let used = line["slices"][0]["server_cpu_us"].as_f64().expect("a time");
                assert!(used > 0.0, "{line}");
            }
        }
    }
    // A block that the machine disturbed is measured again.
    assert!(cells == 2 && blocks >= 1, "{cells} cells, {blocks} blocks");
    let page = std::fs::read_to_string(path("out/report.html")).expect("a page");
    assert!(
        page.contains("The load is a command") && page.contains("load '{port}"),
        "no load command"
    );
    let failing = ["--load-command", "sh -c 'echo no luck >&2; exit 7' {port}", "--repeats", "1"];
    let output = compare(&[&failing[..], &["--out", "failed"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && stderr.contains("(exit status: 7): no luck"),
        "{stderr}"
    );
    for (arguments, message) in [
        (&["--load-command", "sh -c load"][..], "put {port} into it"),
        (&["--load-command", "no-such-load {port}"][..], "no such program"),
        (&["--load-command", "sh {port}", "-c", "1,2"][..], "put {connections} into it"),
        (&["--load-command", "sh {port}", "--window", "1s"][..], "the load command decides that"),
        (&["--workers", "3"][..], "--workers: this flag is for Duality's own servers"),
    ] {
        let output = compare(&[arguments, &["--check"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let one_line = stderr.trim().lines().count() == 1;
        assert!(
            output.status.code() == Some(2) && stderr.contains(message) && one_line,
            "{stderr}"
        );
    }
}

#[test]
fn a_signal_lists_all_threads_with_their_stacks() {
    let program = Program::new("deep_waits", &["-pthread"]);
    let output = run(&["--dump-signal", "SIGUSR1", "--", program.name()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("4 threads"), "{stderr}");
    assert_eq!(stderr.matches("parked in read(").count(), 2, "{stderr}");
    // Each thread has six calls of `deep` and one of `nap`. Main has two, and two more are around
    // the handler.
    assert_eq!(stderr.matches("the program+0x").count(), 2 * 7 + 2 + 2, "{stderr}");
}

#[test]
fn a_stack_overflow_names_where_the_thread_began() {
    let program = Program::new("overflow", &["-pthread", "-w"]);
    let output = run(&["--", program.name()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(11), "{stderr}");
    let symbols = finish(Command::new("nm").arg(program.path()));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let line = symbols.lines().find(|line| line.ends_with(" T begin")).expect("the function");
    let address = line.split(' ').next().expect("an address").trim_start_matches('0');
    let place = format!("which began at the program+0x{address}, has used up its stack");
    assert!(stderr.contains(&place), "{stderr}, and not {place}");
}

/// Runs a shell command around the torture program: natively, and on the engine. `{}` stands for
/// the program.
fn under_limits(command: &str) -> [(Option<i32>, Option<i32>, String); 2] {
    let program = torture().to_str().expect("a name");
    let subjects = [program.to_owned(), format!("{DUALITY} run -- {program}")];
    subjects.map(|subject| {
        let output = finish(Command::new("sh").arg("-c").arg(command.replace("{}", &subject)));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), output.status.signal(), stdout)
    })
}

#[test]
fn a_program_ends_by_signals_as_natively() {
    for signal in ["KILL", "TERM", "INT", "ABRT", "QUIT", "SEGV"] {
        let command = format!(
            "ulimit -c 0; {{}} limits_wait & sleep 0.5; kill -{signal} $!; wait $!; echo $?"
        );
        let [native, ours] = under_limits(&command);
        assert_eq!(native, ours, "{signal}");
    }
}

#[test]
fn limits_are_seen_as_natively() {
    let commands = [
        // With few descriptors, the program gets as many as natively, and then EMFILE.
        "ulimit -Sn 24; {} limits_descriptors",
        "ulimit -Sn 256; {} limits_descriptors",
        // With little memory, allocations fail with ENOMEM and threads with EAGAIN, and the program
        // goes on.
        "ulimit -v 3000000; {} limits_memory",
        "ulimit -v 400000; {} limits_memory",
        "ulimit -v 100000; {} limits_memory",
        "ulimit -s 512; {} limits_memory",
        "ulimit -Sf 8; {} limits_file",
    ];
    for command in commands {
        let [native, ours] = under_limits(command);
        assert_eq!(native, ours, "{command}");
    }
}

#[test]
fn gdb_shows_the_stacks_of_parked_threads() {
    let program = Program::new("traced", &["-pthread"]);
    let place = tempfile::tempdir().expect("a folder");
    let script = place.path().join("threads.py");
    std::fs::write(&script, run(&["--gdb-script"]).stdout).expect("written");
    let mut child = Command::new(DUALITY)
        .args(["run", "--"])
        .arg(program.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-p", &child.id().to_string(), "-x"]).arg(&script);
    gdb.args(["-ex", "duality threads", "-ex", "duality backtrace", "-ex", "detach"]);
    let shown = finish(&mut gdb);
    child.kill().expect("it runs");
    child.wait().expect("a child");
    let stdout = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(stdout.matches("parked in call 0 ").count(), 6, "{stdout}");
    assert_eq!(stdout.matches(" in nap (").count(), 3, "{stdout}");
    assert_eq!(stdout.matches(" in main (").count(), 1, "{stdout}");
}
