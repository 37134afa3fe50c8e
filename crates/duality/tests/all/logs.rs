//! Logs of real servers: the same traffic, written by nginx and Apache in each of their
//! formats, and read back by `duality trace from`. Servers that are not installed are printed as
//! skipped.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kept_port::KeptPort;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No step of these tests takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 12;
const REQUESTS: usize = 15;
/// Bytes of the page that is asked for.
const PAGE: usize = 3000;

/// A server with its configuration, in which `{port}` and `{folder}` are filled in.
struct Server {
    name: &'static str,
    command: &'static [&'static str],
    configuration: &'static str,
    /// Whether its log tells which requests shared a connection.
    tells_connections: bool,
}

const NGINX_JSON: &str = r#"daemon off; pid {folder}/pid; error_log {folder}/errors;
events {}
http {
  log_format duality escape=json '{"ts":$msec,"rt":$request_time,"conn":$connection,"n":$connection_requests,"m":"$request_method","u":"$uri","s":$status,"b":$body_bytes_sent,"p":"$server_protocol","rtt":"$tcpinfo_rtt"}';
  access_log {folder}/access.log duality; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server { listen 127.0.0.1:{port}; root {folder}; }
}"#;

const NGINX: &str = r"daemon off; pid {folder}/pid; error_log {folder}/errors;
events {}
http {
  access_log {folder}/access.log combined; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server { listen 127.0.0.1:{port}; root {folder}; }
}";

const APACHE: &str = r#"ServerRoot /usr/lib/apache2
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog {folder}/errors
DocumentRoot {folder}
<Directory {folder}>
Require all granted
</Directory>
KeepAlive On
MaxKeepAliveRequests 0
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
CustomLog {folder}/access.log combined
"#;

const SERVERS: [Server; 3] = [
    Server {
        name: "nginx, one line of JSON",
        command: &["nginx", "-p", "{folder}", "-c", "{configuration}"],
        configuration: NGINX_JSON,
        tells_connections: true,
    },
    Server {
        name: "nginx, combined",
        command: &["nginx", "-p", "{folder}", "-c", "{configuration}"],
        configuration: NGINX,
        tells_connections: false,
    },
    Server {
        name: "Apache, combined",
        command: &["apache2", "-D", "FOREGROUND", "-f", "{configuration}"],
        configuration: APACHE,
        tells_connections: false,
    },
];

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts it; `None` if it is not installed.
    fn start(&self, folder: &Path, address: SocketAddr) -> Option<Running> {
        let fill = |text: &str| {
            let configuration = folder.join("configuration");
            text.replace("{folder}", &folder.display().to_string())
                .replace("{port}", &address.port().to_string())
                .replace("{configuration}", &configuration.display().to_string())
        };
        fs::write(folder.join("configuration"), fill(self.configuration)).unwrap();
        let words: Vec<String> = self.command.iter().map(|word| fill(word)).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let mut server = Running(command.spawn().ok()?);
        eventually(self.name, || {
            let ended = server.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}: {ended:?}", self.name);
            TcpStream::connect(address).ok()
        });
        Some(server)
    }
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Asks for the page again and again on a connection.
fn ask(name: &str, address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reply = [0; 1 << 14];
    for number in 0..REQUESTS {
        stream
            .write_all(b"GET /page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\r\n")
            .unwrap();
        let mut length = 0;
        loop {
            let came = stream.read(&mut reply[length..]);
            length += came.unwrap_or_else(|error| panic!("{name}: reply {number}: {error}"));
            assert!(reply.starts_with(b"HTTP/1.1 200 "), "{name}");
            let head = reply[..length].windows(4).position(|end| end == b"\r\n\r\n");
            if head.is_some_and(|head| length >= head + 4 + PAGE) {
                break;
            }
        }
    }
}

fn duality(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_duality"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn logs_of_real_servers_are_read_back() {
    for server in &SERVERS {
        // Readable for servers that give up root.
        let folder = tempfile::Builder::new().prefix("logs").tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), open).unwrap();
        fs::write(folder.path().join("page.html"), vec![b'x'; PAGE]).unwrap();
        let port = KeptPort::keep();
        let address = port.address();
        let Some(running) = server.start(folder.path(), address) else {
            println!("skipped: {}: {} is not installed", server.name, server.command[0]);
            continue;
        };
        std::thread::scope(|scope| {
            (0..CONNECTIONS).for_each(|_| _ = scope.spawn(|| ask(server.name, address)));
        });
        kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
        let log = folder.path().join("access.log");
        let all = CONNECTIONS * REQUESTS;
        let lines =
            || fs::read_to_string(&log).map_or(0, |text| text.matches("/page.html").count());
        eventually(server.name, || (lines() >= all).then_some(()));
        drop(running);

        duality(folder.path(), &["trace", "from", "access.log", "-o", "my.trace"]);
        let shown = duality(folder.path(), &["trace", "show", "my.trace", "--json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["requests"], all, "{}", server.name);
        if server.tells_connections {
            assert_eq!(shown["connections"], CONNECTIONS, "{}", server.name);
            assert_eq!(shown["per_connection"]["p50"], REQUESTS as f64, "{}", server.name);
        }
        // The page, in quarter powers of two; Apache's format counts the head, too.
        let size = shown["reply"]["p50"].as_f64().unwrap();
        assert!((2800.0..3800.0).contains(&size), "{}: {size}", server.name);
    }
}
