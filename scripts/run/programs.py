"""The programs of `scripts/run_programs.py`.

command    the words; {port}, {port2}, {folder} are filled in
files      what is written into the folder before
before     a shell command that prepares the folder
client     a shell command that talks to the program, which is then ended by SIGTERM; without one, it runs to its end
mask       patterns of output that differ from run to run
"""

CURL = "for n in 1 2 3 4 5 6 7 8; do curl -sS -m 20 http://127.0.0.1:{port}/index.html | md5sum & done; wait"
SITE = "mkdir site; seq 1 20000 > site/index.html"
DATA = "seq 1 300000 > data"
TIMES = [r"\s*\d+\.\d+", r"\b\d+ms\b"]


def serves(command, client=CURL, **more):
    return {"command": command, "client": client, "before": SITE, **more}


def runs(command, **more):
    return {"command": command, "before": DATA, **more}


JAVA = """
import java.net.*; import java.io.*; import java.util.concurrent.*; import java.util.*;
public class Main {
    public static void main(String[] a) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(32);
        List<Future<Long>> sums = new ArrayList<>();
        for (int i = 0; i < 200; i++) { final int n = i; sums.add(pool.submit(() -> { long s = 0; for (int k = 0; k < 100000; k++) s += k * n; return s; })); }
        long total = 0; for (Future<Long> f : sums) total += f.get();
        System.out.println(total);
        ServerSocket server = new ServerSocket(0, 500);
        Thread acceptor = new Thread(() -> { try { for (int i = 0; i < 200; i++) { Socket s = server.accept();
            new Thread(() -> { try { s.getOutputStream().write(new byte[10000]); s.close(); } catch (IOException e) { System.out.println(e); } }).start(); } } catch (IOException e) { System.out.println(e); } });
        acceptor.start();
        int bytes = 0; byte[] b = new byte[4096];
        for (int i = 0; i < 200; i++) { try (Socket s = new Socket("127.0.0.1", server.getLocalPort())) { int r; while ((r = s.getInputStream().read(b)) > 0) bytes += r; } }
        System.out.println(bytes);
        ConcurrentHashMap<Integer, Integer> map = new ConcurrentHashMap<>();
        Thread[] ts = new Thread[50]; for (int i = 0; i < 50; i++) { ts[i] = new Thread(() -> { for (int k = 0; k < 2000; k++) map.merge(k, 1, Integer::sum); }); ts[i].start(); }
        for (Thread t : ts) t.join(); System.out.println(map.values().stream().mapToInt(x -> x).sum());
        System.gc(); Thread.sleep(50); System.out.println(Objects.requireNonNull("end"));
        try { Object o = null; o.toString(); } catch (NullPointerException e) { System.out.println("npe"); }
        try { deep(0); } catch (StackOverflowError e) { System.out.println("deep"); }
        pool.shutdown(); System.exit(7);
    }
    static int deep(int n) { return deep(n + 1) + 1; }
}
"""

NODE = """
const { Worker, isMainThread, parentPort } = require('worker_threads');
const fs = require('fs'), crypto = require('crypto'), dns = require('dns'), http = require('http');
if (!isMainThread) { let s = 0; for (let i = 0; i < 3e6; i++) s += i % 7; parentPort.postMessage(s); }
else (async () => {
  const ws = await Promise.all([...Array(6)].map(() => new Promise(r => new Worker(__filename).on('message', r))));
  console.log(ws.join());
  const hs = await Promise.all([...Array(8)].map((_, i) => new Promise(r => crypto.pbkdf2('p' + i, 's', 2000, 32, 'sha256', (e, k) => r(k.toString('hex'))))));
  console.log(hs.join());
  const fsr = await Promise.all([...Array(20)].map(() => fs.promises.readFile('/etc/passwd')));
  console.log(fsr.length, fsr[0].length);
  console.log((await dns.promises.lookup('localhost')).family > 0);
  const srv = http.createServer((q, r) => r.end('x'.repeat(5000))).listen(0, '127.0.0.1', async () => {
    const n = await Promise.all([...Array(50)].map(() => new Promise(res => http.get({ port: srv.address().port, host: '127.0.0.1' }, r => { let c = 0; r.on('data', d => c += d.length).on('end', () => res(c)); }))));
    console.log(n.reduce((a, b) => a + b)); srv.close(); process.exit(3);
  });
})();
"""

PYTHON = """
import asyncio, concurrent.futures, hashlib, multiprocessing, os, queue, signal, socket, subprocess, sys, threading, time
with concurrent.futures.ThreadPoolExecutor(50) as pool:
    print(sum(pool.map(lambda n: int(hashlib.sha256(b'x' * n).hexdigest(), 16) % 1000, range(2000))))
def square(n): return n * n
if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool: print(sum(pool.map(square, range(1000))))
    with concurrent.futures.ProcessPoolExecutor(3) as pool: print(sum(pool.map(square, range(100))))
    ctx = multiprocessing.get_context('spawn')
    q = ctx.Queue()
    print(subprocess.run(['sh', '-c', 'echo child; exit 4'], capture_output=True))
    outs = []
    ts = [threading.Thread(target=lambda: outs.append(subprocess.check_output(['echo', 'x']))) for _ in range(20)]
    [t.start() for t in ts]; [t.join() for t in ts]; print(len(outs), set(outs))
    async def main():
        async def echo(r, w):
            w.write(await r.readline()); await w.drain(); w.close()
        server = await asyncio.start_server(echo, '127.0.0.1', 0)
        port = server.sockets[0].getsockname()[1]
        async def one(n):
            r, w = await asyncio.open_connection('127.0.0.1', port); w.write(b'%d\\n' % n); d = await r.readline(); w.close(); return int(d)
        print(sum(await asyncio.gather(*(one(n) for n in range(200)))))
        p = await asyncio.create_subprocess_exec('echo', 'hello', stdout=-1); print(await p.communicate(), p.returncode)
        print(await asyncio.get_running_loop().run_in_executor(None, square, 9))
        print(len(await asyncio.get_running_loop().getaddrinfo('localhost', 80)) > 0)
    asyncio.run(main())
    got = []
    signal.signal(signal.SIGUSR1, lambda *a: got.append(a[0])); os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.05); print(got)
    ev = threading.Event(); t = threading.Timer(0.05, ev.set); t.start(); print(ev.wait(5))
    sem = multiprocessing.Semaphore(0); p = multiprocessing.Process(target=sem.release); p.start(); print(sem.acquire(timeout=10)); p.join(); print(p.exitcode)
    a, b = socket.socketpair(); a.settimeout(0.05)
    try: a.recv(1)
    except socket.timeout: print('timeout')
    sys.exit(5)
"""

RUBY = """
require 'socket'; require 'open3'; require 'timeout'
q = Queue.new; ts = 50.times.map { |i| Thread.new { 20.times { |k| q << i * k } } }; ts.each(&:join); s = 0; s += q.pop until q.empty?; puts s
srv = TCPServer.new('127.0.0.1', 0); port = srv.addr[1]
t = Thread.new { 100.times { c = srv.accept; Thread.new(c) { |x| x.puts(x.gets.to_i * 2); x.close } } }
puts 100.times.map { |i| Thread.new { c = TCPSocket.new('127.0.0.1', port); c.puts i; r = c.gets.to_i; c.close; r } }.sum(&:value)
puts Open3.capture2e('sh', '-c', 'echo hi; exit 3').inspect.sub(/pid \\d+/, 'pid')
begin; Timeout.timeout(0.1) { sleep }; rescue Timeout::Error; puts 'timeout'; end
trap('USR1') { puts 'usr1' }; Process.kill('USR1', $$); sleep 0.1
puts 8.times.map { |i| Thread.new { (1..20000).reduce(:+) } }.map(&:value).sum
pid = fork { exit 9 }; Process.wait pid; puts $?.exitstatus
exit 6
"""

PERL = """
use strict; use threads; use threads::shared; use Thread::Queue;
my $n :shared = 0; my $q = Thread::Queue->new(1 .. 500); $q->end;
my @t = map { threads->create(sub { while (defined(my $x = $q->dequeue)) { lock($n); $n += $x } }) } 1 .. 10;
$_->join for @t; print "$n\\n"; system('echo sub'); print $? >> 8, "\\n"; $SIG{ALRM} = sub { print "alarm\\n" }; alarm 1; select(undef, undef, undef, 3); exit 4;
"""

OPENMP = """
#include <stdio.h>
#include <omp.h>
int main(void) { double s = 0; omp_set_num_threads(8);
  for (int r = 0; r < 50; r++) {
    #pragma omp parallel for reduction(+ : s) schedule(dynamic, 100)
    for (int i = 0; i < 20000; i++) s += i % 7;
    #pragma omp parallel
    { 
      #pragma omp barrier
      #pragma omp critical
      s += 1;
    } }
  printf("%.0f\\n", s); return 11; }
"""

PROGRAMS = {
    # Programs that run to their end.
    "pigz": runs(["sh", "-c", "pigz -n -p 4 -c data | md5sum"], needs=["pigz"]),
    "pigz-itself": runs(["pigz", "-n", "-p", "4", "-c", "data"]),
    "unpigz": runs(["pigz", "-p", "4", "-dc", "data.gz"], before=DATA + "; gzip -k data"),
    "pbzip2": runs(["pbzip2", "-p4", "-k", "-c", "data"]),
    "lbzip2": runs(["lbzip2", "-n", "4", "-k", "-c", "data"]),
    "plzip": runs(["plzip", "-n", "4", "-k", "-c", "data"]),
    "xz": runs(["xz", "-1", "-T2", "--block-size=1MiB", "-k", "-c", "data"]),
    "xz-d": runs(["xz", "-T4", "-dc", "data.xz"], before=DATA + "; xz -1 -T2 --block-size=1MiB data"),
    "zstd": runs(["zstd", "-T4", "-9", "-k", "-c", "data"]),
    "sort": runs(["sort", "--parallel=4", "-S", "20M", "-k1.3", "data"]),
    "sysbench-cpu": runs(["sysbench", "cpu", "--threads=8", "--time=0", "--events=2000", "run"], mask=TIMES),
    "sysbench-threads": runs(["sysbench", "threads", "--threads=16", "--time=0", "--events=500", "run"], mask=TIMES),
    "sysbench-mutex": runs(["sysbench", "mutex", "--threads=16", "--mutex-loops=1000", "run"], mask=TIMES),
    "sysbench-memory": runs(["sysbench", "memory", "--threads=4", "--memory-total-size=1G", "run"], mask=TIMES),
    "stress-pthread": runs(["stress-ng", "--pthread", "2", "--pthread-ops", "2000", "--timeout", "60"], ignore_output=True),
    "stress-mutex": runs(["stress-ng", "--mutex", "2", "--mutex-procs", "8", "--mutex-ops", "5000", "--timeout", "60"], ignore_output=True),
    "stress-futex": runs(["stress-ng", "--futex", "2", "--futex-ops", "3000", "--timeout", "60"], ignore_output=True),
    "stress-sem": runs(["stress-ng", "--sem", "2", "--sem-ops", "5000", "--timeout", "60"], ignore_output=True),
    "stress-poll": runs(["stress-ng", "--poll", "2", "--poll-ops", "2000", "--timeout", "60"], ignore_output=True),
    "stress-sigs": runs(["stress-ng", "--sigfd", "1", "--sigfd-ops", "2000", "--sigsuspend", "1", "--sigsuspend-ops", "500", "--sigq", "1", "--sigq-ops", "500", "--timeout", "60"], ignore_output=True),
    "stress-timers": runs(["stress-ng", "--timer", "1", "--timer-ops", "500", "--itimer", "1", "--itimer-ops", "500", "--timerfd", "1", "--timerfd-ops", "500", "--timeout", "60"], ignore_output=True),
    "stress-ipc": runs(["stress-ng", "--pipe", "1", "--pipe-ops", "2000", "--sock", "1", "--sock-ops", "200", "--mq", "1", "--mq-ops", "500", "--eventfd", "1", "--eventfd-ops", "500", "--timeout", "60"], ignore_output=True),
    "stress-tasks": runs(["stress-ng", "--clone", "1", "--clone-ops", "200", "--fork", "1", "--fork-ops", "200", "--vfork", "1", "--vfork-ops", "200", "--exec", "1", "--exec-ops", "30", "--timeout", "60"], ignore_output=True),
    "stress-epoll": runs(["stress-ng", "--epoll", "1", "--epoll-ops", "500", "--timeout", "60"], ignore_output=True),
    "fio": runs(["fio", "--thread", "--numjobs=8", "--name=j", "--size=1M", "--rw=randrw", "--ioengine=psync", "--minimal", "--output=/dev/null"]),
    "fio-uring": runs(["fio", "--thread", "--numjobs=4", "--name=j", "--size=1M", "--rw=randrw", "--ioengine=io_uring", "--iodepth=8", "--minimal", "--output=/dev/null"]),
    "fio-libaio": runs(["fio", "--thread", "--numjobs=4", "--name=j", "--size=1M", "--rw=randrw", "--ioengine=libaio", "--iodepth=8", "--minimal", "--output=/dev/null"]),
    "fio-posixaio": runs(["fio", "--thread", "--numjobs=4", "--name=j", "--size=1M", "--rw=randrw", "--ioengine=posixaio", "--iodepth=8", "--minimal", "--output=/dev/null"]),
    "git-grep": runs(["git", "grep", "--threads=8", "-c", "9", "--no-index", "data"]),
    "git-gc": runs(["git", "gc", "-q", "--aggressive"], before="git init -q .; for n in 1 2 3 4 5 6 7 8; do seq $n 30000 > f$n; git add .; git -c user.name=a -c user.email=a@a commit -qm $n; done"),
    "curl": {"command": ["curl", "-sS", "http://localhost:{port}/index.html"], "before": SITE + "; (cd site; timeout 20 python3 -m http.server {port} >/dev/null 2>&1 &) ; sleep 1"},
    "aria2": {"command": ["aria2c", "-q", "-s4", "http://localhost:{port}/index.html"], "before": SITE + "; (cd site; timeout 20 python3 -m http.server {port} >/dev/null 2>&1 &) ; sleep 1"},
    "python": {"command": ["python3", "main.py"], "files": {"main.py": PYTHON}},
    "ruby": {"command": ["ruby", "main.rb"], "files": {"main.rb": RUBY}},
    "perl": {"command": ["perl", "main.pl"], "files": {"main.pl": PERL}},
    "openmp": {"command": ["./omp"], "needs": ["cc"], "files": {"omp.c": OPENMP}, "before": "cc -O2 -fopenmp -o omp omp.c"},
    "openmp-spins": {"command": ["./omp"], "needs": ["cc"], "files": {"omp.c": OPENMP}, "before": "cc -O2 -fopenmp -o omp omp.c", "environment": {"OMP_WAIT_POLICY": "active"}},
    "java-version": {"command": ["java", "-version"]},
    "java": {"command": ["java", "-cp", ".", "Main"], "needs": ["java", "javac"], "files": {"Main.java": JAVA}, "before": "javac Main.java"},
    "javac": {"command": ["javac", "Main.java"], "files": {"Main.java": JAVA}},
    "node": {"command": ["node", "main.js"], "files": {"main.js": NODE}},
    "imagemagick": {"command": ["convert", "-size", "600x600", "plasma:red-blue", "-seed", "3", "-blur", "0x8", "-format", "%wx%h", "info:"], "needs": ["convert"]},
    "mksquashfs": runs(["mksquashfs", "data", "image", "-quiet", "-no-progress", "-processors", "4", "-all-time", "0", "-mkfs-time", "0"]),
    "ripgrep": runs(["rg", "-j4", "-c", "77", "data"], needs=["rg"]),
    "par2": runs(["par2", "create", "-q", "-q", "-r5", "data.par2", "data"]),
    "rustc": {"command": ["rustc", "-O", "-C", "codegen-units=4", "main.rs"], "before": "cp {here}/run/threads_server.rs main.rs"},
    "gdb": {"command": ["gdb", "-batch", "-nx", "-ex", "info line main", "./a.out"], "before": "echo 'int main(void){{return 0;}}' > a.c; cc -g a.c"},

    # Servers.
    "nginx": serves(["nginx", "-p", "{folder}", "-c", "nginx.conf", "-e", "stderr"], files={"nginx.conf": """
daemon off; worker_processes 2; user root; pid nginx.pid; error_log stderr;
thread_pool default threads=16;
events { worker_connections 1000; }
http { access_log off; server { listen 127.0.0.1:{port}; root site; aio threads; directio 4k; sendfile off; client_body_temp_path t; } }
"""}),
    "haproxy": serves(["haproxy", "-db", "-f", "haproxy.cfg"], client="(cd site; exec timeout 30 python3 -m http.server {port2} >/dev/null 2>&1) & sleep 1; " + CURL.replace("wait", "sleep 2"), files={"haproxy.cfg": """
global
  nbthread 4
  maxconn 1000
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{port2}
"""}),
    "stunnel": serves(["stunnel4", "stunnel.conf"], before=SITE + "; openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout k.pem -out c.pem 2>/dev/null; cat k.pem c.pem > both.pem; chmod 600 both.pem",
                      client="(cd site; exec timeout 30 python3 -m http.server {port2} >/dev/null 2>&1) & sleep 1; for n in 1 2 3 4 5 6; do curl -ksS -m 10 https://127.0.0.1:{port}/index.html | md5sum & done; sleep 3", files={"stunnel.conf": """
foreground = yes
pid =
[x]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{port2}
cert = {folder}/both.pem
"""}),
    "lighttpd": serves(["lighttpd", "-D", "-f", "lighttpd.conf"], files={"lighttpd.conf": 'server.document-root = "{folder}/site"\nserver.port = {port}\nserver.bind = "127.0.0.1"\nserver.event-handler = "linux-sysepoll"\n'}),
    "webfs": serves(["webfsd", "-F", "-p", "{port}", "-i", "127.0.0.1", "-r", "site"]),
    "privoxy": serves(["privoxy", "--no-daemon", "privoxy.conf"], client="(cd site; exec timeout 30 python3 -m http.server {port2} >/dev/null 2>&1) & sleep 1; for n in 1 2 3 4 5 6 7 8; do curl -sS -m 20 -x http://127.0.0.1:{port} http://127.0.0.1:{port2}/index.html | md5sum & done; sleep 3", files={"privoxy.conf": "listen-address 127.0.0.1:{port}\nlogdir {folder}\nmax-client-connections 100\n"}),
    "unbound": serves(["unbound", "-d", "-c", "unbound.conf"], client="for n in 1 2 3 4 5 6; do dig +short +tries=1 +time=5 @127.0.0.1 -p {port} h$n.test A; dig +tcp +short +tries=1 +time=5 @127.0.0.1 -p {port} h1.test A; done", files={"unbound.conf": """
server:
  num-threads: 4
  interface: 127.0.0.1
  port: {port}
  do-daemonize: no
  username: ""
  chroot: ""
  pidfile: "{folder}/p"
  use-syslog: no
  local-zone: "test." static
  local-data: "h1.test. A 10.0.0.1"
  local-data: "h2.test. A 10.0.0.2"
  local-data: "h3.test. A 10.0.0.3"
remote-control:
  control-enable: no
"""}),
    "knot": serves(["knotd", "-c", "knot.conf"], client="for n in 1 2 3 4 5 6; do dig +short +tries=2 +time=5 @127.0.0.1 -p {port} h$n.example A; dig +tcp +short +tries=1 +time=5 @127.0.0.1 -p {port} h1.example A; done", ignore_output=False, mask=[r"\d{4}-\d\d-\d\dT\S+", r"PID \d+", r"pid \d+"], files={"knot.conf": """
server:
    rundir: "{folder}"
    listen: 127.0.0.1@{port}
    udp-workers: 3
    tcp-workers: 3
    background-workers: 3
database:
    storage: "{folder}/db"
log:
  - target: stderr
    any: warning
zone:
  - domain: example
    file: "{folder}/zone"
""", "zone": "example. 60 SOA a. b. 1 60 60 60 60\nexample. 60 NS a.\nh1.example. 60 A 10.0.0.1\nh2.example. 60 A 10.0.0.2\n"}),
    "named": serves(["named", "-g", "-c", "{folder}/named.conf", "-n", "4"], client="sleep 1; for n in 1 2 3 4; do dig +short +tries=2 +time=5 @127.0.0.1 -p {port} h$n.example A; dig +tcp +short +tries=1 +time=5 @127.0.0.1 -p {port} h1.example A; done", files={"named.conf": """
options { directory "{folder}"; listen-on port {port} { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; recursion no; session-keyfile "{folder}/k"; };
controls { };
zone "example" { type master; file "{folder}/zone"; };
""", "zone": "$TTL 60\n@ SOA a. b. 1 60 60 60 60\n@ NS a.\nh1 A 10.0.0.1\nh2 A 10.0.0.2\n"}),
    "pdns-recursor": serves(["pdns_recursor", "--config-dir={folder}", "--daemon=no", "--threads=4", "--local-address=127.0.0.1", "--local-port={port}", "--socket-dir={folder}", "--setuid=", "--setgid=", "--write-pid=no", "--hint-file=no", "--export-etc-hosts=yes", "--etc-hosts-file={folder}/hosts", "--disable-syslog"], client="sleep 1; for n in 1 2 3; do dig +short +tries=2 +time=5 @127.0.0.1 -p {port} h$n.test A; done", files={"hosts": "10.0.0.1 h1.test\n10.0.0.2 h2.test\n10.0.0.3 h3.test\n"}, needs=["pdns_recursor"]),
    "dnsmasq": serves(["dnsmasq", "-k", "-p", "{port}", "-a", "127.0.0.1", "-z", "-C", "/dev/null", "-R", "--no-hosts", "--host-record=h1.test,10.0.0.1", "-u", "root", "-x", "{folder}/p"], client="dig +short +tries=2 @127.0.0.1 -p {port} h1.test A; dig +tcp +short @127.0.0.1 -p {port} h1.test A"),
    "transmission": serves(["transmission-daemon", "-f", "-p", "{port}", "-g", "{folder}/t", "-a", "*", "-P", "{port2}", "-w", "{folder}"], client="curl -sS -m 10 -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/transmission/rpc; sleep 1"),
    "icecast": serves(["icecast2", "-c", "icecast.xml"], client="for n in 1 2 3 4; do curl -sS -m 10 -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/index.html; done", user="nobody", files={"icecast.xml": "<icecast><limits><clients>100</clients><sources>2</sources></limits><authentication><source-password>a</source-password><admin-user>a</admin-user><admin-password>a</admin-password></authentication><hostname>localhost</hostname><listen-socket><port>{port}</port><bind-address>127.0.0.1</bind-address></listen-socket><paths><basedir>{folder}</basedir><logdir>{folder}</logdir><webroot>{folder}/site</webroot><adminroot>{folder}/site</adminroot></paths><logging><accesslog>access.log</accesslog><errorlog>error.log</errorlog></logging></icecast>"}),
    "mosquitto": serves(["mosquitto", "-p", "{port}"], client="timeout 10 mosquitto_sub -p {port} -t a -C 3 > got & sleep 1; for n in 1 2 3; do mosquitto_pub -p {port} -t a -m m$n; done; wait; cat got"),
    "postgres": serves(["/usr/lib/postgresql/15/bin/postgres", "-D", "{folder}/pg", "-p", "{port}", "-k", "{folder}", "-h", "127.0.0.1"], user="postgres", before="chown postgres .; su postgres -s /bin/sh -c '/usr/lib/postgresql/15/bin/initdb -D {folder}/pg -A trust >/dev/null'",
                       client="sleep 2; su postgres -s /bin/sh -c \"psql -h 127.0.0.1 -p {port} -Atc 'create table t as select generate_series(1,10000) a' -c 'select sum(a) from t'; for n in 1 2 3 4; do psql -h 127.0.0.1 -p {port} -Atc 'select count(*) from t a where a.a % 7 = 1' & done; wait; pgbench -h 127.0.0.1 -p {port} -i -q >/dev/null 2>&1; pgbench -h 127.0.0.1 -p {port} -c 8 -j 4 -t 20 2>&1 | grep processed\""),
    "varnish": serves(["varnishd", "-F", "-a", "127.0.0.1:{port}", "-b", "127.0.0.1:{port2}", "-n", "{folder}/v", "-s", "malloc,64m"], client="(cd site; exec timeout 30 python3 -m http.server {port2} >/dev/null 2>&1) & sleep 2; " + CURL.replace("wait", "sleep 3")),
    "turnserver": serves(["turnserver", "-n", "-L", "127.0.0.1", "-p", "{port}", "--no-tls", "--no-dtls", "-m", "4", "--log-file", "stdout", "--simple-log", "--pidfile", "{folder}/p", "--no-cli"], client="sleep 1; for n in 1 2 3; do turnutils_stunclient -p {port} 127.0.0.1 2>&1 | grep -c reflexive; done; turnutils_uclient -u a -w a -p {port} -n 5 -m 3 -y 127.0.0.1 2>&1 | grep -c error", ignore_output=True, needs=["turnserver"]),
    "gunicorn": serves(["gunicorn", "-k", "gthread", "--threads", "16", "-w", "2", "-b", "127.0.0.1:{port}", "app:app"], files={"app.py": "def app(e, s):\n    s('200 OK', [('Content-Length', '50000')])\n    return [b'x' * 50000]\n"}),
    "puma": serves(["puma", "-t", "8:16", "-b", "tcp://127.0.0.1:{port}", "config.ru"], files={"config.ru": "run ->(e) { [200, {}, ['x' * 50000]] }\n"}, mask=[r"PID: \d+", r"PID\S* \d+", r"\d+-\d+-\d+ [\d:]+ \+\d+"]),
    "uwsgi": serves(["uwsgi", "--plugin", "python3", "--http-socket", "127.0.0.1:{port}", "--threads", "16", "--processes", "2", "--enable-threads", "--die-on-term", "--wsgi-file", "app.py", "--master"], files={"app.py": "def application(e, s):\n    s('200 OK', [('Content-Length', '50000')])\n    return [b'x' * 50000]\n"}, ignore_output=True),
    "node-server": serves(["node", "s.js"], files={"s.js": "const fs = require('fs'); require('http').createServer((q, r) => fs.readFile('site/index.html', (e, d) => r.end(d))).listen({port}, '127.0.0.1');"}),
    "slapd": serves(["slapd", "-d", "0", "-h", "ldap://127.0.0.1:{port}", "-f", "slapd.conf"], before=SITE + "; mkdir db", client="printf 'dn: dc=x\\nobjectClass: dcObject\\nobjectClass: organization\\no: x\\ndc: x\\n' | ldapadd -x -H ldap://127.0.0.1:{port} -D cn=a,dc=x -w a; for n in 1 2 3 4 5 6; do ldapsearch -x -LLL -H ldap://127.0.0.1:{port} -b dc=x & done; wait", files={"slapd.conf": "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nsuffix dc=x\nrootdn cn=a,dc=x\nrootpw a\ndirectory {folder}/db\npidfile {folder}/p\n"}),
    "iperf3": serves(["iperf3", "-s", "-p", "{port}", "-B", "127.0.0.1"], client="iperf3 -c 127.0.0.1 -p {port} -P 4 -n 20M >/dev/null; echo $?; iperf3 -c 127.0.0.1 -p {port} -R -u -n 1M > /dev/null; echo $?", ignore_output=True),
    "beanstalkd": serves(["beanstalkd", "-l", "127.0.0.1", "-p", "{port}"], client="printf 'put 1 0 60 5\\r\\nhello\\r\\nreserve\\r\\nquit\\r\\n' | nc -N 127.0.0.1 {port}"),
    "rsyslog": serves(["rsyslogd", "-n", "-f", "r.conf", "-i", "{folder}/p"], client="for n in 1 2 3 4 5; do echo \"<13>m$n\" | nc -N 127.0.0.1 {port}; done; sleep 1; grep -c m got", files={"r.conf": 'module(load="imtcp")\ninput(type="imtcp" port="{port}" address="127.0.0.1")\n*.* action(type="omfile" file="{folder}/got" template="RSYSLOG_FileFormat")\nmain_queue(queue.workerthreads="4")\n'}),
    "h2o": serves(["h2o", "-c", "h2o.conf"], files={"h2o.conf": "num-threads: 4\nlisten:\n  host: 127.0.0.1\n  port: {port}\nuser: root\npid-file: {folder}/p\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}/site\n"}),
    "nghttpx": serves(["nghttpx", "--frontend=127.0.0.1,{port};no-tls", "--backend=127.0.0.1,{port2}", "-n", "4", "--accesslog-file=/dev/null", "--no-ocsp", "--conf=/dev/null"], client="(cd site; exec timeout 30 python3 -m http.server {port2} >/dev/null 2>&1) & sleep 1; " + CURL.replace("wait", "sleep 3")),
    "nghttpd": serves(["nghttpd", "--no-tls", "-n", "4", "-d", "site", "-a", "127.0.0.1", "{port}"], client="for n in 1 2 3 4 5 6; do nghttp http://127.0.0.1:{port}/index.html | md5sum & done; wait"),
    "gearmand": serves(["gearmand", "-p", "{port}", "-L", "127.0.0.1", "-t", "4", "-l", "stderr"], client="timeout 10 gearman -h 127.0.0.1 -p {port} -w -c 2 -f up -- tr a-z A-Z & sleep 1; echo hello | gearman -h 127.0.0.1 -p {port} -f up; echo world | gearman -h 127.0.0.1 -p {port} -f up; wait"),
    "mpd": serves(["mpd", "--no-daemon", "mpd.conf"], client="printf 'status\\nclose\\n' | nc -N 127.0.0.1 {port}", files={"mpd.conf": 'music_directory "{folder}"\ndb_file "{folder}/db"\nbind_to_address "127.0.0.1"\nport "{port}"\naudio_output {{\n type "null"\n name "n"\n}}\n'.replace("{{", "{").replace("}}", "}")}),
}
