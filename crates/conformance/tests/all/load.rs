//! `duality load` as a command: its requests, conditions and formats, its exit codes, and every
//! command of docs/requests.md.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use duality_conformance::{complaints_of_load, skip};
use tempfile::TempDir;

/// A short load, for tests that need no window.
const SHORT: [&str; 4] = ["-c", "2", "-n", "200"];

/// Runs `load`, and returns its exit code, standard output and standard error.
fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_served"))
        .arg("load")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Answers the requests of one connection: 404 to `/absent`, and otherwise 200. The body is the
/// number of the request at `/counter`, and otherwise `hello`.
fn answer(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    for number in 0.. {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            if !matches!(stream.read_line(&mut head), Ok(1..)) {
                return;
            }
            if let Some(value) = head[start..].strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        let path = head.split(' ').nth(1).unwrap();
        let status = match path {
            "/absent" => "404 Not Found",
            "/orders" => "201 Created",
            _ => "200 OK",
        };
        let body = if path == "/counter" { number.to_string() } else { "hello".to_owned() };
        let mut reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        if !head.starts_with("HEAD") {
            reply += &body;
        }
        if stream.get_mut().write_all(reply.as_bytes()).is_err() {
            return;
        }
        if head.contains("\r\nConnection: close\r\n") {
            return;
        }
    }
}

/// A server, and a directory with the files that commands name. In it the server also listens at
/// the Unix socket `app.sock`.
fn serve() -> (SocketAddr, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let local = UnixListener::bind(directory.path().join("app.sock")).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || answer(stream));
        }
    });
    thread::spawn(move || {
        for stream in local.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("order.json", r#"{"things":[1,2]}"#);
    write("users.csv", "id,name\n1,Ada\n2,\"Lovelace, Ada\"\n");
    let urls = "3 /\n/search?q=a\nPOST /users\nContent-Type: application/json\n@order.json\n\nHEAD /about\n";
    write("urls.txt", urls);
    (address, directory)
}

#[test]
fn misuse_is_one_line_with_its_place() {
    let (address, directory) = serve();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("evil.csv", "name\nAda\n\"a\r\nEvil: b\"\n");
    write("wrong.csv", "id,name\n1\n");
    write("wrong.txt", "/\n\n0 /a\n");
    write("other.txt", "/\nhttp://other.invalid/\n");
    write("paths.txt", "/\n");
    write("braces.txt", "/\n/{{age}}\n");
    let target = &*format!("http://{address}/");
    for (arguments, message) in [
        (&["-H", "X", target][..], "write Name: value"),
        (&["-H", "X: a\r\nEvil: b", target], "a line end after byte 1"),
        (&["-H", "Content-Length: 5", target], "follows from the body"),
        (&["--method", "G ET", target], "is no method"),
        (&["--user", "ada", target], "NAME:PASSWORD"),
        (&["--cookie", "a=b\nEvil: c", target], "--cookie: the header Cookie: a line end"),
        (&["--body", "x", "--body-file", "order.json", target], "--body-file"),
        (&["--body-file", "absent", target], "--body-file absent: No such file"),
        (&["--expect-status", "2x", target], "--expect-status"),
        (&["--expect-status", "100", target], "those of 1xx are skipped"),
        (&["--expect-body", "some", target], "--expect-body"),
        (&["--expect-body", "/(/", target], "unclosed group"),
        (&["--fail-if", "p99>10", target], "10 has no unit"),
        (&["--fail-if", "p99", target], "such as 'p99>10ms'"),
        (&["--fail-if", "p99>1s", "--slo", "p99=1s", target], "--slo"),
        (&["--format", "xml", target], "--format"),
        (&["--json", "--format", "csv", target], "--format"),
        (&["--urls", "absent.txt", target], "--urls absent.txt: No such file"),
        (&["--urls", "wrong.txt", target], "--urls wrong.txt: line 3: 0 is no weight"),
        (&["--urls", "other.txt", target], "--urls other.txt: line 2: other.invalid is not the"),
        (&["--urls", "paths.txt"], "no URL names the server"),
        (&["--urls", "paths.txt", &format!("{target}page")], "leave out /page"),
        (&["--values", "wrong.csv", target], "--values wrong.csv: line 2: 1 values"),
        (
            &["--values", "users.csv", "--urls", "braces.txt", target],
            "braces.txt: line 2: there is no column \"age\"",
        ),
        (
            &["--values", "evil.csv", "-H", "X: {{name}}", target],
            "line 3 of the values, column name: a line end",
        ),
        (&["--requests-per-connection", "0", target], "--requests-per-connection"),
        (&["--requests-per-connection", "2", "--close", target], "leave out --close"),
        (&["-H", "A: b", &format!("echo://{address}")], "load an http server"),
        (&["--unix", "app.sock", &format!("echo://{address}")], "give an http:// target"),
        (&["http+unix://app.sock"], "http+unix:///PATH/TO.SOCK:/URL"),
        (&[], "<TARGET>"),
    ] {
        let (code, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((code, &*stdout), (2, ""), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

#[test]
fn conditions_that_are_met_are_a_line_each_and_exit_code_1() {
    let (address, directory) = serve();
    let target = &*format!("http://{address}/");
    let run = |more: &[&str]| run(directory.path(), &[&SHORT[..], more, &[target]].concat());
    let (code, _, stderr) =
        run(&["--fail-if", "p99>1m", "--fail-if", "errors>0", "--fail-if", "rate<1/s"]);
    assert!(
        complaints_of_load(&stderr).is_empty() && (code == 0 || !stderr.is_empty()),
        "{stderr}"
    );
    let (code, stdout, stderr) =
        run(&["--fail-if", "max>1us", "--fail-if", "p50>1m", "--fail-if", "rate>1/s"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("200 correct, none failed"), "{stdout}");
    let lines = complaints_of_load(&stderr);
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(lines[0].starts_with(&format!("duality: {target}: max is ")), "{stderr}");
    assert!(lines[0].ends_with("--fail-if 'max>1us'"), "{stderr}");
    assert!(lines[1].ends_with("--fail-if 'rate>1/s'"), "{stderr}");
}

#[test]
fn a_rate_that_was_not_kept_is_exit_code_1() {
    let (address, directory) = serve();
    let target = &*format!("http://{address}/");
    let arguments = ["-R", "900000", "-c", "1", "-d", "1s", "--warm-up", "10ms", target];
    let (code, stdout, stderr) = run(directory.path(), &arguments);
    assert_eq!(code, 1, "{stdout}");
    assert!(stderr.contains("requests that were due were answered"), "{stderr}");
}

#[test]
fn what_is_not_expected_fails_the_load_with_a_hint() {
    let (address, directory) = serve();
    let run = |path: &str, more: &[&str]| {
        let target = format!("http://{address}{path}");
        run(directory.path(), &[&SHORT[..], more, &[&target]].concat())
    };
    let (code, _, stderr) = run("/absent", &[]);
    assert!(code == 1 && stderr.contains("unexpected status 404"), "{stderr}");
    let is_correct = |path: &str, more: &[&str]| complaints_of_load(&run(path, more).2).is_empty();
    assert!(is_correct("/absent", &["--expect-status", "404"]));
    let (code, _, stderr) = run("/counter", &[]);
    assert!(code == 1 && stderr.contains("give --expect-body any"), "{stderr}");
    assert!(is_correct("/counter", &["--expect-body", "any"]));
    assert!(is_correct("/counter", &["--expect-body", r"/^\d+$/"]));
    let (code, _, stderr) = run("/counter", &["--expect-body", "/^0/"]);
    assert!(code == 1 && !stderr.contains("--expect-body any"), "{stderr}");
    let (code, _, stderr) = run("/orders", &["--method", "POST"]);
    assert!(code == 1 && stderr.contains("--expect-status"), "{stderr}");
}

#[test]
fn each_format_can_be_read() {
    let (address, directory) = serve();
    let target = &*format!("http://{address}/?a=\"b,c\"");
    let run = |format: &[&str]| {
        let arguments = [&SHORT[..], &["--close"], format, &[target]].concat();
        let (_, stdout, stderr) = run(directory.path(), &arguments);
        assert!(complaints_of_load(&stderr).is_empty(), "{format:?}: {stderr}");
        stdout
    };
    let json: serde_json::Value = serde_json::from_str(&run(&["--format", "json"])).unwrap();
    assert_eq!((&json["version"], &json["requests"]), (&1.into(), &200.into()));
    let alias: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(alias["requests"], 200);

    let text = run(&["--format", "csv"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("target,pattern,connections,"), "{text}");
    assert!(
        lines[1].starts_with(&format!("\"http://{address}/?a=\"\"b,c\"\"\",closed,2,false,")),
        "{text}"
    );

    let text = run(&["--format", "prometheus"]);
    assert!(text.contains("# TYPE duality_load_latency_seconds histogram"), "{text}");
    check_with_promtool(&text);
    assert!(run(&["--format", "text"]).contains("200 correct, none failed"));
}

/// Checks a page with the Prometheus project's own reader.
fn check_with_promtool(page: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.stdout(Stdio::piped()).spawn() else {
        return skip(format_args!("promtool is missing (package prometheus)"));
    };
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{page}");
}

/// The commands of a page: commands in fences of a shell, and in the cells of tables.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_shell = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell && line.starts_with("duality load ") {
            commands.push(line.to_owned());
        } else if line.starts_with('|') {
            let spans = line.split('`').skip(1).step_by(2);
            commands
                .extend(spans.filter(|span| span.starts_with("duality load ")).map(str::to_owned));
        }
    }
    commands
}

#[test]
fn every_command_of_the_page_works() {
    let (address, directory) = serve();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_served"), directory.path().join("duality"))
        .unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/requests.md");
    let commands = commands(&fs::read_to_string(page).unwrap());
    assert!(commands.len() >= 25, "{commands:#?}");
    // The address of the page's server.
    let written = ["127.0.0.1", "8080"].join(":");
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    for command in commands {
        // The command runs on the test's server, and for a shorter time: the last of a repeated
        // flag counts.
        let local = command.replace(&written, &address.to_string());
        let length = if local.contains(" -n ") { "" } else { " -d 60ms" };
        let output = Command::new("sh")
            .args(["-c", &format!("{local}{length} --warm-up 10ms")])
            .env("PATH", &path)
            .current_dir(directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_clean = complaints_of_load(&stderr).is_empty();
        assert!(is_clean && (output.status.success() || !stderr.is_empty()), "{command}: {stderr}");
    }
}
