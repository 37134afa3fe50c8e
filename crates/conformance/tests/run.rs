//! `duality run`: the torture suite natively and on the engine, what is refused, and real programs.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use duality_conformance::programs::{compile, finish, folder, torture};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Runs `duality run` with these arguments.
fn run(arguments: &[&str]) -> Output {
    finish(Command::new(DUALITY).arg("run").args(arguments))
}

fn refused(arguments: &[&str], reason: &str) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.contains(reason) && said.lines().count() == 1, "{arguments:?}: {said}");
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
fn a_program_with_address_sanitizer_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("nothing.c"), place.path().join("nothing"));
    std::fs::write(&file, "int main(void) { return 0; }\n").expect("written");
    compile(&[file], &["-fsanitize=address"], &program);
    let program = program.to_str().expect("a name");
    refused(&["--", program], "AddressSanitizer");
    refused(&["--check", program], "AddressSanitizer");
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
fn threads_are_user_level_threads() {
    // Natively, a thread that sleeps is a second task of the kernel.
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n#include <stdlib.h>\n\
        static void *nap(void *a) { sleep(100); return a; }\n\
        int main(void) { pthread_t t; for (int i = 0; i < 20; i++) pthread_create(&t, 0, nap, 0);\n\
        fflush(stdout); return system(\"grep ^Threads /proc/$PPID/status\"); }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("nap.c"), place.path().join("nap"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread"], &program);
    let native = finish(&mut Command::new(&program));
    assert_eq!(String::from_utf8_lossy(&native.stdout), "Threads:\t21\n");
    let ours = run(&["--cores=1", "--", program.to_str().expect("a name")]);
    let said = String::from_utf8_lossy(&ours.stdout);
    let threads: usize = said.trim_start_matches("Threads:").trim().parse().expect("a number");
    assert!(threads <= 3, "{threads} kernel threads");
}

#[test]
fn without_io_uring_the_engine_says_so_and_is_on_epoll() {
    // Forbids io_uring_setup(2), and executes what it is given.
    let source = "#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stddef.h>\n\
        #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
        int main(int c, char **v) { struct sock_filter rules[] = {\n\
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};\n\
        struct sock_fprog program = {4, rules}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);\n\
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program); return execvp(v[1], v + 1), c; }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("forbid.c"), place.path().join("forbid"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &[], &program);
    let mut command = Command::new(&program);
    command.args([DUALITY, "run", "--poller", "uring", "--"]).arg(torture());
    let output = finish(command.arg("receive_by_many_from_one_socket"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("--poller epoll") && said.lines().count() == 1, "{said}");
}

#[test]
fn statistics_are_printed_at_the_end() {
    let output = run(&["--stats", "--", torture().to_str().expect("a name"), "ping_pong"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("threads 1 created, 2 at most"), "{said}");
    assert!(said.contains("parks by call: futex "), "{said}");
}

#[test]
fn a_thread_that_has_just_begun_its_turn_keeps_it() {
    // Twenty threads compute for longer than a hundred ticks in all: for some microseconds at a time, or without a break.
    let source = "#include <pthread.h>\n#include <sched.h>\n#include <time.h>\n\
        static int yields;\n\
        static double used(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }\n\
        static void *turns(void *a) { while (used() < 0.3) { for (volatile int i = 0; i < 20000; i++); if (yields) sched_yield(); } return a; }\n\
        int main(int c, char **v) { pthread_t t[20]; yields = c > 1;\n\
        for (int i = 0; i < 20; i++) pthread_create(&t[i], 0, turns, 0);\n\
        for (int i = 0; i < 20; i++) pthread_join(t[i], 0);\n\
        return 0; }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("turns.c"), place.path().join("turns"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread", "-O1"], &program);
    let program = program.to_str().expect("a name");
    let preemptions_with = |yields: &[&str]| {
        let options = ["--stats", "--cores", "1", "--tick", "2ms", "--", program];
        let output = run(&[&options[..], yields].concat());
        assert!(output.status.success(), "{output:?}");
        preemptions(&output)
    };
    let (short_turns, long_turns) = (preemptions_with(&["yields"]), preemptions_with(&[]));
    assert!(short_turns < long_turns / 2, "{short_turns} preemptions, and {long_turns}");
}

#[test]
fn threads_that_wake_go_before_those_that_compute() {
    // Round trips through two pipes beside two threads that compute: without precedence, each way
    // waits for their turns.
    let source = "#include <pthread.h>\n#include <unistd.h>\n\
        static int there[2], back[2];\n\
        static void *spin(void *a) { for (volatile int go = 1; go;) {} return a; }\n\
        static void *echo(void *a) { for (char c; read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1;) {} return a; }\n\
        int main(void) { pthread_t t; char c = 0; if (pipe(there) || pipe(back)) return 1;\n\
        pthread_create(&t, 0, echo, 0);\n\
        for (int i = 0; i < 2; i++) pthread_create(&t, 0, spin, 0);\n\
        for (int i = 0; i < 1000; i++) if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 1;\n\
        return 0; }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("wake.c"), place.path().join("wake"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread", "-O1"], &program);
    let program = program.to_str().expect("a name");
    let output = run(&["--stats", "--cores", "1", "--tick", "2ms", "--", program]);
    let preemptions = preemptions(&output);
    assert!(output.status.success() && preemptions < 500, "{preemptions} preemptions");
}

/// The preemptions that `--stats` has counted.
fn preemptions(output: &Output) -> u32 {
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = said.split_once("preemptions ").expect("a counter");
    rest.split(';').next().expect("a number").parse().expect("a number")
}

#[test]
fn calls_that_need_not_wait_need_no_helper() {
    let source = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <mqueue.h>\n#include <stdio.h>\n\
        #include <sys/msg.h>\n#include <sys/sem.h>\n#include <unistd.h>\n\
        int main(void) { struct { long type; char byte; } message = {1, 'x'};\n\
        int queue = msgget(IPC_PRIVATE, 0600), failed = msgsnd(queue, &message, 1, 0);\n\
        failed |= msgrcv(queue, &message, 1, 0, 0) != 1; msgctl(queue, IPC_RMID, 0);\n\
        int set = semget(IPC_PRIVATE, 1, 0600); struct sembuf up = {0, 1, 0}, down = {0, -1, 0};\n\
        struct timespec second = {1, 0};\n\
        failed |= semop(set, &up, 1) | semtimedop(set, &down, 1, &second); semctl(set, 0, IPC_RMID);\n\
        struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 1}; char name[40], byte;\n\
        sprintf(name, \"/first.%d\", getpid());\n\
        mqd_t box = mq_open(name, O_RDWR | O_CREAT, 0600, &one); mq_unlink(name);\n\
        failed |= mq_send(box, \"x\", 1, 0) | (mq_receive(box, &byte, 1, 0) != 1);\n\
        int from[2], to[2]; failed |= pipe(from) | pipe(to) | (write(from[1], \"x\", 1) != 1);\n\
        failed |= tee(from[0], to[1], 1, 0) != 1 || splice(from[0], 0, to[1], 0, 1, 0) != 1;\n\
        FILE *file = tmpfile(); struct flock lock = {.l_type = F_WRLCK};\n\
        failed |= fcntl(fileno(file), F_SETLKW, &lock);\n\
        return failed; }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("first.c"), place.path().join("first"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-lrt"], &program);
    let output = run(&["--stats", "--", program.to_str().expect("a name")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("offloads 0;"), "{said}");
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("works") && said.contains("libc.so.6"),
        "{said}"
    );
}

#[test]
fn children_run_natively_unless_asked_otherwise() {
    // The last command of a shell may replace the shell, and is the program then.
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

/// Makes `argv[2]` requests to a web server, each on a connection of its own, and prints how many were answered.
const LOAD: &str = r#"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(0x7f000001)};
    const char *ask = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    char reply[4096];
    int right = 0;
    for (int left = argc > 2 ? atoi(argv[2]) : 1; left > 0; left--) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s, (void *)&to, sizeof to) || write(s, ask, strlen(ask)) < 0) { perror("connect"); return 1; }
        right += read(s, reply, sizeof reply) > 12 && !memcmp(reply + 9, "200", 3);
        close(s);
    }
    printf("hello\nrequests %d\np99_us 250\n", right);
}"#;

#[test]
fn a_load_command_makes_the_load_and_the_lab_measures_the_server() {
    let place = tempfile::tempdir().expect("a folder");
    let path = |name: &str| place.path().join(name);
    let compile_to = |source: PathBuf, name: &str| compile(&[source], &["-pthread"], &path(name));
    compile_to(folder("../../examples/c/server.c"), "server");
    std::fs::write(path("load.c"), LOAD).expect("written");
    compile_to(path("load.c"), "load");
    std::fs::create_dir(path("site")).expect("a folder");
    std::fs::write(path("site/index.html"), "hello").expect("written");
    let compare = |arguments: &[&str]| {
        let mut command = Command::new(DUALITY);
        command.current_dir(place.path()).args(["compare", "--binary", "./server {port} site"]);
        finish(command.args(arguments))
    };
    // Relative paths are those of the caller.
    let load = ["--load-command", "./load {port} {connections}", "-c", "5", "--tick", "2ms"];
    let output =
        compare(&[&load[..], &["--repeats", "1", "--blocks", "1", "--out", "out"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read_to_string(path("out/results.jsonl")).expect("results");
    let (mut cells, mut slices) = (0, 0);
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
                slices += line["slices"].as_array().expect("a block").len();
                let used = line["slices"][0]["server_cpu_us"].as_f64().expect("a time");
                assert!(used > 0.0, "{line}");
            }
        }
    }
    assert_eq!((cells, slices), (2, 4));
    let page = std::fs::read_to_string(path("out/report.html")).expect("a page");
    assert!(
        page.contains("The load is a command") && page.contains("load &#x27;{port}"),
        "no load command"
    );
    let failing = ["--load-command", "sh -c 'echo no luck >&2; exit 7' {port}", "--repeats", "1"];
    let output = compare(&[&failing[..], &["--out", "failed"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("(exit status: 7): no luck"),
        "{said}"
    );
    for (arguments, told) in [
        (&["--load-command", "sh -c load"][..], "put {port} into it"),
        (&["--load-command", "no-such-load {port}"][..], "no such program"),
        (&["--load-command", "sh {port}", "-c", "1,2"][..], "put {connections} into it"),
        (&["--load-command", "sh {port}", "--window", "1s"][..], "the load command decides that"),
        (&["--workers", "3"][..], "--workers: this is about servers of ours"),
    ] {
        let output = compare(&[arguments, &["--check"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let one_line = said.trim().lines().count() == 1;
        assert!(output.status.code() == Some(2) && said.contains(told) && one_line, "{said}");
    }
}

#[test]
fn a_signal_lists_all_threads_with_their_stacks() {
    // Three threads wait, each beneath functions of the program; one of them in the handler of a signal.
    let source = "#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static void look(int s) { (void)s; usleep(300000); }\n\
        __attribute__((noinline)) static long deep(int n, int fd) { char b; volatile long r = n ? deep(n - 1, fd) : read(fd, &b, 1); return r + 1; }\n\
        static void *nap(void *a) { return (void *)deep(5, *(int *)a); }\n\
        static void *in_handler(void *a) { pthread_kill(pthread_self(), SIGUSR2); return a; }\n\
        int main(void) { int ends[2]; pthread_t t; signal(SIGUSR2, look); if (pipe(ends)) return 1;\n\
        for (int i = 0; i < 2; i++) pthread_create(&t, 0, nap, &ends[0]);\n\
        pthread_create(&t, 0, in_handler, 0);\n\
        usleep(100000); kill(getpid(), SIGUSR1); usleep(50000); exit(0); }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("nap.c"), place.path().join("nap"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread"], &program);
    let output = run(&["--dump-signal", "SIGUSR1", "--", program.to_str().expect("a name")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("4 threads"), "{said}");
    assert_eq!(said.matches("parked in read(").count(), 2, "{said}");
    // Six of `deep` and one of `nap` in each, main's two, and two around the handler.
    assert_eq!(said.matches("the program+0x").count(), 2 * 7 + 2 + 2, "{said}");
}

#[test]
fn a_stack_overflow_names_where_the_thread_began() {
    let source = "#include <pthread.h>\n\
        static int down(int n) { volatile char pad[200]; pad[0] = n; return down(n + 1) + pad[0]; }\n\
        void *begin(void *a) { return (void *)(long)down(a != 0); }\n\
        int main(void) { pthread_t t; pthread_create(&t, 0, begin, 0); pthread_join(t, 0); return 0; }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("deep.c"), place.path().join("deep"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread", "-w"], &program);
    let output = run(&["--", program.to_str().expect("a name")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(11), "{said}");
    let symbols = finish(Command::new("nm").arg(&program));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let line = symbols.lines().find(|line| line.ends_with(" T begin")).expect("the function");
    let address = line.split(' ').next().expect("an address").trim_start_matches('0');
    let place = format!("which began at the program+0x{address}, has used up its stack");
    assert!(said.contains(&place), "{said}, and not {place}");
}

/// Runs a shell command around the torture program: natively, and on the engine. `{}` stands for the program.
fn under_limits(command: &str) -> [(Option<i32>, Option<i32>, String); 2] {
    let program = torture().to_str().expect("a name");
    let subjects = [program.to_owned(), format!("{DUALITY} run -- {program}")];
    subjects.map(|subject| {
        let output = finish(Command::new("sh").arg("-c").arg(command.replace("{}", &subject)));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), output.status.signal(), said)
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
        // Few descriptors: the program gets as many as natively, and EMFILE.
        "ulimit -Sn 24; {} limits_descriptors",
        "ulimit -Sn 256; {} limits_descriptors",
        // Little memory: allocations fail with ENOMEM, and threads with EAGAIN; nothing dies.
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
    // Any process may trace it, so that the test needs no privilege.
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
        static void *nap(void *a) { char b; return (void *)read(*(int *)a, &b, 1); }\n\
        int main(void) { int ends[2]; pthread_t t[3]; prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);\n\
        if (pipe(ends)) return 1;\n\
        for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, nap, &ends[0]);\n\
        usleep(50000); puts(\"ready\"); fflush(stdout); pause(); }\n";
    let place = tempfile::tempdir().expect("a folder");
    let (file, program) = (place.path().join("nap.c"), place.path().join("nap"));
    std::fs::write(&file, source).expect("written");
    compile(&[file], &["-pthread"], &program);
    let script = place.path().join("threads.py");
    std::fs::write(&script, run(&["--gdb-script"]).stdout).expect("written");
    let mut child = Command::new(DUALITY)
        .args(["run", "--"])
        .arg(&program)
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
    let said = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(said.matches("parked in call 0 ").count(), 6, "{said}");
    assert_eq!(said.matches(" in nap (").count(), 3, "{said}");
    assert_eq!(said.matches(" in main (").count(), 1, "{said}");
}
