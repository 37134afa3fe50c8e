"""The servers of `scripts/run_servers.py`: the command of each, and the conversation of its
clients."""

import os
import shutil
import subprocess
import struct

import clients
from clients import Failure

PAGE = b"<p>" + bytes(range(48, 90)) * 10 + b"</p>\n"
HERE = os.path.dirname(os.path.abspath(__file__))


class Server:
    """A name, a command, a conversation.

    command(folder, port, clients)   the words of the command; may write files into the folder
    conversation                     what a client says, see `clients.py`
    most                             clients that it can have with 20,000 descriptors
    at_a_time                        clients that connect at the same time: fewer than its accept backlog
    backend                          it needs a web server behind it, on the next port
    """

    def __init__(self, name, needs, command, conversation, most=10000, backend=False, rounds=5, at_a_time=500):
        self.name, self.needs, self.command, self.conversation = name, needs, command, conversation
        self.most, self.backend, self.rounds = most, backend, rounds
        self.at_a_time = at_a_time

    def missing(self):
        return next((need for need in self.needs if not find(need)), None)


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def build(folder, compiler, source, *flags):
    """Compiles a program into the folder, once."""
    program = os.path.join(folder, os.path.basename(source).rsplit(".")[0])
    if not os.path.exists(program):
        subprocess.run([compiler, *flags, "-o", program, source], check=True)
    return program


def site(folder):
    path = os.path.join(folder, "site")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "index.html"), "wb") as page:
        page.write(PAGE)
    return path


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def allowed(count):
    """The number of clients that a server is told to expect. A server may see a crowd connect
    before it has seen the last crowd leave."""
    return 2 * count + 100


def knot_like(folder, port, count):
    source = os.path.join(HERE, "../../examples/c/server.c")
    return [build(folder, "cc", source, "-O2", "-pthread"), str(port), site(folder)]


def rust(folder, port, count):
    program = build(folder, "rustc", os.path.join(HERE, "threads_server.rs"), "--edition=2021", "-O")
    return [program, str(port)]


def python(folder, port, count):
    return ["python3", "-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1", "-d", site(folder), str(port)]


def tinyproxy(folder, port, count):
    text = f"Port {port}\nListen 127.0.0.1\nMaxClients {allowed(count)}\nTimeout 300\nLogLevel Critical\nDisableViaHeader Yes\n"
    return ["tinyproxy", "-d", "-c", write(folder, "tinyproxy.conf", text)]


def civetweb(folder, port, count):
    return ["civetweb", "-listening_ports", f"127.0.0.1:{port}", "-num_threads", str(count + 10), "-document_root", site(folder),
            "-enable_keep_alive", "yes", "-keep_alive_timeout_ms", "120000", "-request_timeout_ms", "120000",
            "-connection_queue", "4000", "-listen_backlog", "4000"]


def apache(folder, port, count):
    threads = min(count + 64, 12000)
    text = f"""ServerRoot {folder}
PidFile {folder}/apache.pid
Listen 127.0.0.1:{port}
ListenBackLog 4096
ServerName x
LoadModule mpm_worker_module /usr/lib/apache2/modules/mod_mpm_worker.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
ServerLimit 1
StartServers 1
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {threads}
MinSpareThreads 1
MaxSpareThreads {threads}
KeepAliveTimeout 120
MaxKeepAliveRequests 0
DocumentRoot {site(folder)}
User www-data
Group www-data
ErrorLog {folder}/apache.log
"""
    return ["apache2", "-f", write(folder, "apache.conf", text), "-DFOREGROUND"]


def memcached(folder, port, count):
    return ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "4", "-c", str(allowed(count)), "-b", "4000"]


def redis(*options):
    def command(folder, port, count):
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--maxclients", str(allowed(count)), "--save", "",
                "--dir", folder, "--tcp-backlog", "4000", "--loglevel", "warning", "--protected-mode", "no", *options]

    return command


def mariadb(folder, port, count):
    data = os.path.join(folder, "data")
    if not os.path.isdir(data):
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--auth-root-authentication-method=normal"],
                       check=True, stdout=subprocess.DEVNULL)
    init = write(folder, "init.sql", "CREATE TABLE IF NOT EXISTS test.t (a INT PRIMARY KEY, b VARCHAR(80));\n"
                 "DELETE FROM test.t;\n"
                 "CREATE USER IF NOT EXISTS nobody@'%';\nGRANT ALL ON *.* TO nobody@'%';\nFLUSH PRIVILEGES;\n")
    os.makedirs(os.path.join(data, "test"), exist_ok=True)
    return ["mariadbd", "--no-defaults", f"--datadir={data}", "--user=root", "--bind-address=127.0.0.1", f"--port={port}",
            f"--socket={folder}/s", f"--pid-file={folder}/mariadb.pid", f"--max-connections={allowed(count)}", "--back-log=4000", f"--init-file={init}",
            "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--open-files-limit=20000", "--table-open-cache=2000",
            "--lc-messages-dir=/usr/share/mysql", "--performance-schema=OFF",
            "--long-query-time=1000"]


def through_proxy(number, rounds):
    from_backend = yield f"GET http://127.0.0.1:{BACKEND_PORT} HTTP/1.0\r\nHost: x\r\n\r\n".encode(), clients.http
    return clients.without_date(from_backend)


BACKEND_PORT = 0


def socks(number, rounds):
    """Asks a SOCKS 5 server for a connection to the web server behind it."""
    if (yield b"\x05\x01\x00", clients.exactly(2)) != b"\x05\x00":
        raise Failure("no SOCKS")
    connect = b"\x05\x01\x00\x01\x7f\x00\x00\x01" + struct.pack(">H", BACKEND_PORT)
    if (yield connect, clients.exactly(10))[1]:
        raise Failure("SOCKS refused")
    seen = None
    for _ in range(rounds):
        seen = clients.without_date((yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", clients.http))
    return seen


def in_memcached(number, rounds):
    value = (b"%d " % number * 40)[:200]
    for turn in range(rounds):
        key = b"key%d" % number
        if (yield b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), clients.line) != b"STORED\r\n":
            raise Failure("not stored")
        if turn == rounds - 1:
            return (yield b"get " + key + b"\r\n", clients.ends_with(b"END\r\n"))


def in_redis(number, rounds):
    key, value = b"key:%d" % number, b"value of %d" % number
    said = b""
    for _ in range(rounds):
        said += yield b"SET %s \"%s\"\r\n" % (key, value), clients.redis
        said += yield b"GET %s\r\n" % key, clients.redis
        said += yield b"APPEND %s !\r\n" % key, clients.redis
    return said


def in_mariadb(number, rounds):
    yield b"", clients.packet
    capabilities = 0x0200 | 0x8000 | 0x80000 | 0x8
    hello = struct.pack("<IIB23x", capabilities, 1 << 24, 45) + b"nobody\x00\x00test\x00mysql_native_password\x00"
    answer = yield struct.pack("<I", len(hello) | 1 << 24) + hello, clients.packet
    if answer[4] != 0:
        raise Failure(f"no login: {answer!r}")

    def query(text):
        return struct.pack("<I", len(text) + 1) + b"\x03" + text.encode()

    said = b""
    for turn in range(rounds):
        changed = yield query(f"REPLACE INTO t VALUES ({number}, REPEAT('{turn} {number},', 5))"), clients.result
        # The number of rows that a REPLACE changes depends on the rows before it.
        said += changed if turn else b""
        said += yield query(f"SELECT a, b, LENGTH(b) FROM t WHERE a = {number}"), clients.result
    return said


SERVERS = [
    Server("server.c", ["cc"], knot_like, clients.get("/index.html")),
    Server("rust-std-threads", ["rustc"], rust, clients.get("/index.html")),
    Server("microsocks", ["microsocks", "cc"], lambda folder, port, count: ["microsocks", "-i", "127.0.0.1", "-p", str(port)], socks,
           most=9500, backend=True),
    Server("tinyproxy", ["tinyproxy", "cc"], tinyproxy, through_proxy, most=9500, backend=True),
    Server("civetweb", ["civetweb"], civetweb, clients.get("/index.html")),
    Server("apache-worker", ["apache2"], apache, clients.get("/index.html")),
    Server("memcached", ["memcached"], memcached, in_memcached),
    Server("redis", ["redis-server"], redis(), in_redis),
    Server("redis-io-threads", ["redis-server"], redis("--io-threads", "4", "--io-threads-do-reads", "yes"), in_redis),
    Server("mariadb", ["mariadbd", "mariadb-install-db"], mariadb, in_mariadb),
    Server("http.server", ["python3"], python, clients.get("/index.html"), at_a_time=4),
]
