#!/usr/bin/env python3
"""Several hosts on one machine: `cargo xtask hosts`. docs/hosts-rig.md explains how to use them.

 this machine           duality-switch                       the hosts
 duality ────────────── port254 ┐
 10.77.0.254                    ├ bridge 10.77.0.253
                        port1 ──┤ ────────────────────────── duality-1, eth0 10.77.0.1
                        port2 ──┤ ────────────────────────── duality-2, eth0 10.77.0.2
                        port3 ──┘ near ═ cable ═ far ─────── duality-3, eth0 10.77.0.3

Each host is a network namespace. `near`, `cable` and `far` exist only with --delay, --loss or
--rate: the program `cable.c` carries each packet between the two interfaces. Every process of the
rig runs in a namespace of the rig. So the kernel's list of the processes of these namespaces is
complete, and `down` needs no other list.

Namespaces end at a reboot. So the rig's files are in /run, which also ends there, and every work
tree finds them. Paths in /run are also short enough for UNIX sockets.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

FOLDER, NAMESPACES = "/run/duality-hosts", "/run/netns"
# The bridge, where slurmctld listens, and this machine. No host has these addresses.
SWITCH, MACHINE = 253, 254
MOST = 100
# The longest times for a daemon to start, and for a process to end after a signal.
START, END = 60, 5
# The packets that a line holds: without a rate, several bursts of 15,000 connections.
UNLIMITED, LEAST = 100_000, 1000
# Programs, each with its Debian package.
NEEDS = {
    "": {"ip": "iproute2", "nsenter": "util-linux", "hostname": "hostname"},
    "line": {"ethtool": "ethtool", "cc": "gcc"},
    "ssh": {"sshd": "openssh-server", "ssh": "openssh-client"},
    "slurm": {
        "munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client",
    },
}


class Failure(Exception):
    """What failed, in one line."""


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as every command of Duality."""

    def error(self, message):
        self.exit(2, f"xtask: hosts: {message}; `cargo xtask hosts --help` says more\n")


def of_form(pattern, wanted, read=lambda match: match[0]):
    """A reader of a flag's value, which has the form `pattern`."""

    def parse(text):
        match = re.fullmatch(pattern, text)
        value = None if match is None else read(match)
        if value is None:
            raise argparse.ArgumentTypeError(f"`{text}` is not understood: give {wanted}")
        return value

    return parse


def quantity(units, least, most):
    """The number of a match, by the factor of its unit."""

    def read(match):
        value = float(match[1]) * units[match[2]]
        return round(value) if least <= value <= most else None

    return read


def parse(words):
    number = r"([0-9]+\.?[0-9]*)"
    count = of_form("[1-9][0-9]?|100", "a number from 1 to 100", lambda match: int(match[0]))
    # The name is also the name of an interface, which has at most 15 bytes.
    name = of_form("[a-z][a-z0-9-]{0,11}", "up to 12 small letters, digits and hyphens")
    # Neither "this network", nor loopback, nor multicast.
    network = of_form(
        r"((?!0+\.|127\.)[0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})",
        "the first three numbers of an address, such as 10.77.0",
        lambda match: match[0]
        if int(match[1]) < 224 and max(map(int, match.groups())) < 256 else None,
    )
    parser = Parser("cargo xtask hosts", description="Makes several hosts on one machine.",
                    epilog="Run these commands as root. docs/hosts-rig.md has more.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    about = {
        "up": "makes hosts of network namespaces, and prints how to use them",
        "list": "prints the hosts, what runs on each, and how to run a command there",
        "cut": "pulls the cable of a host",
        "join": "plugs the cable of a host again",
        "down": "ends every process of the hosts, and removes all that `up` made",
    }
    for command, text in about.items():
        own = commands.add_parser(command, help=text, description=text, allow_abbrev=False)
        own.add_argument("--name", type=name, default="duality", help="of these hosts (duality)")
        if command in ("cut", "join"):
            own.add_argument("host", type=count, metavar="N", help="the number of the host")
        if command != "up":
            continue
        own.add_argument("--count", type=count, default=5, metavar="N", help="how many hosts (5)")
        own.add_argument("--ssh", action="store_true", help="an sshd on each, and an ssh_config")
        own.add_argument("--slurm", action="store_true", help="a slurmd on each, for srun")
        own.add_argument(
            "--delay", metavar="20ms", help="of a round trip between the last host and all others",
            type=of_form(number + "(us|ms|s)", "a time up to 10s, such as 20ms",
                         quantity({"us": 1e3, "ms": 1e6, "s": 1e9}, 0, 1e10)))
        own.add_argument(
            "--loss", metavar="1%", help="of packets, each way, between the same",
            type=of_form(number + "(%)", "a share up to 100%, such as 1%",
                         quantity({"%": 1e4}, 0, 1e6)))
        own.add_argument(
            "--rate", metavar="100mbit", help="each way between the same; kbit, mbit or gbit",
            type=of_form(number + "(kbit|mbit|gbit)", "a rate from 1kbit to 100gbit",
                         quantity({"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}, 1e3, 1e11)))
        own.add_argument(
            "--network", type=network, default="10.77.0", metavar="10.77.0",
            help="the hosts are 10.77.0.1, 10.77.0.2 …, and this machine is 10.77.0.254")
    if "--help" in words or "-h" in words:
        # One page for all commands.
        parser.print_help()
        for text in commands.choices["up"].format_help().split("options:")[1:]:
            print("\noptions of `up`:" + text, end="")
        sys.exit(0)
    return parser.parse_args(words)


def path_of(program):
    # A user's PATH on Debian lacks sbin.
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def run(*words, **options):
    """Runs words, or one line of words without spaces within. Returns what it prints."""
    words = words[0].split(" ") if len(words) == 1 else list(words)
    try:
        done = subprocess.run([path_of(words[0]) or words[0], *words[1:]], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, **options)
    except OSError as error:
        raise Failure(f"cannot run {words[0]}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise Failure(f"`{' '.join(words)}`: {last}")
    return done.stdout


def succeeds(*words, **options):
    try:
        return run(*words, **options)
    except Failure:
        return None


def until(done, seconds=END):
    """Waits until `done` is true. Returns whether it was in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Rig:
    """Hosts that are made and removed together, by the options of `up`."""

    def __init__(self, options):
        self.name, self.folder = options.name, f"{FOLDER}/{options.name}"
        self.flag = "" if self.name == "duality" else f" --name {self.name}"
        self.switch = f"{self.name}-switch"
        self.plan = vars(options)

    def host(self, number):
        return f"{self.name}-{number}"

    def hosts(self):
        return range(1, self.plan["count"] + 1)

    def last(self):
        return self.host(self.plan["count"])

    def address(self, number):
        return f"{self.plan['network']}.{number}"

    def namespaces(self):
        own = re.compile(re.escape(self.name) + "-(switch|[0-9]+)")
        names = os.listdir(NAMESPACES) if os.path.isdir(NAMESPACES) else []
        return [name for name in names if own.fullmatch(name)]

    def path(self, file):
        return f"{self.folder}/{file}"

    def write(self, file, content):
        """Writes a file that only root may read: some files hold keys."""
        descriptor = os.open(self.path(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb" if isinstance(content, bytes) else "w") as written:
            written.write(content)

    def read(self, file):
        with open(self.path(file)) as opened:
            return opened.read()

    def made(self):
        """Reads the options that the rig was made by."""
        try:
            self.plan = json.loads(self.read("plan"))
        except FileNotFoundError:
            raise Failure(f"no hosts named {self.name}-1, {self.name}-2 … are up: `cargo xtask "
                          f"hosts up{self.flag}` makes them") from None

    # The network.

    def is_line(self):
        return any(self.plan[part] is not None for part in ("delay", "loss", "rate"))

    def link(self, words):
        run(f"ip -n {self.switch} link {words}")

    def connect(self, port):
        """Makes an interface a port of the bridge."""
        self.link(f"set {port} master bridge up")

    def make_network(self):
        def configure(namespace, interface, number):
            run(f"ip -n {namespace} addr add {self.address(number)}/24 dev {interface}")
            run(f"ip -n {namespace} link set {interface} up")
            run(f"ip -n {namespace} link set lo up")

        self.link("add bridge type bridge")
        configure(self.switch, "bridge", SWITCH)
        for number in self.hosts():
            host = self.host(number)
            run(f"ip netns add {host}")
            self.link(f"add port{number} type veth peer name eth0 netns {host}")
            self.connect(f"port{number}")
            configure(host, "eth0", number)
            # Enough ports for 15,000 connections to one address. In Linux's default range,
            # connect(2) searches all ports for each connection after the first 14,116. Servers
            # have the ports below 10,000.
            ports = "echo 10000 65535 >/proc/sys/net/ipv4/ip_local_port_range"
            run("nsenter", f"--net={NAMESPACES}/{host}", "--", "sh", "-c", ports)
        run(f"ip link add {self.name} type veth peer name port{MACHINE} netns {self.switch}")
        self.connect(f"port{MACHINE}")
        run(f"ip addr add {self.address(MACHINE)}/24 dev {self.name}")
        run(f"ip link set {self.name} up")

    def make_line(self, target):
        """Puts the cable before the last host: its port becomes `far`, and a new one joins."""
        port = f"port{self.plan['count']}"
        for words in (f"set {port} nomaster", f"set {port} down", f"set {port} name far",
                      f"add {port} type veth peer name near"):
            self.link(words)
        self.connect(port)
        for end in ("near", "far"):
            # The bridge's own address must not answer at the ends of the cable.
            self.link(f"set {end} arp off up")
        # The kernel leaves checksums and the cutting of segments to the device, but a virtual
        # interface does neither. The cable needs packets as on a wire.
        for namespace, interface in ((self.switch, port), (self.last(), "eth0")):
            run(f"nsenter --net={NAMESPACES}/{namespace} -- ethtool -K {interface} tx off tso off "
                "gso off")
        # Beneath the target directory, since many machines run no program in /run. The name is
        # the rig's, so that two rigs can be made at once.
        os.makedirs(target, exist_ok=True)
        program, source = f"{target}/cable-{self.name}", f"{os.path.dirname(__file__)}/cable.c"
        run("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source)
        delay, loss, rate = ((self.plan[part] or 0) for part in ("delay", "loss", "rate"))
        # The packets on their way, and 100 ms of queue.
        fits = int(rate * (delay / 2e9 + 0.1) / (1500 * 8))
        packets = min(max(fits, LEAST), UNLIMITED) if rate else UNLIMITED
        self.daemon(self.switch, "cable", program, "near", "far", delay // 2, loss, rate, packets)(
            lambda said: "ready" in said)

    # Processes.

    def daemon(self, host, name, program, *arguments):
        """Starts a program that stays on `host`, and sees it as its host name. Returns a function
        that waits until a predicate of its output is true."""
        log = self.path(f"{name}-{host}.log")
        # `ip netns exec` would hide the control groups beneath a new /sys.
        words = ["nsenter", f"--net={NAMESPACES}/{host}", "--", "unshare", "--uts", "--", "sh", "-c",
                 'hostname "$0" && exec "$@"', host, path_of(program) or program]
        with open(log, "wb") as output:
            # A new session keeps the daemon alive when this terminal closes.
            child = subprocess.Popen(
                words + [str(argument) for argument in arguments], cwd="/", start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)

        def wait(ready):
            def said():
                with open(log, errors="replace") as read:
                    return read.read()

            in_time = until(lambda: child.poll() is not None or ready(said()), START)
            if child.poll() is not None or not in_time:
                how = "is not ready" if child.poll() is None else "ended"
                last = (said().strip().splitlines() or ["it gave no reason"])[-1]
                raise Failure(f"{name} of {host} {how}: {last}")
            # The daemon outlives this program, which needs not wait for it.
            child.returncode = 0

        return wait

    def processes(self, namespace):
        return run(f"ip netns pids {namespace}").split()

    def end_all(self):
        """Ends every process on the hosts, also those that daemons or users started."""

        def left():
            return [number for name in self.namespaces() for number in self.processes(name)]

        if str(os.getpid()) in left():
            raise Failure("this shell is on one of the hosts: leave the host first")
        for signal in ("TERM", "KILL"):

            def gone(signal=signal):
                # The list is read again each time: an ending process can have started another. A
                # process that has ended in between is no failure.
                numbers = left()
                if numbers:
                    succeeds("sh", "-c", 'kill -s "$0" "$@"', signal, *numbers)
                return not numbers

            if until(gone):
                return
        raise Failure(f"these processes do not end: {', '.join(left())}")

    # ssh.

    def start_ssh(self):
        # The folder of sshd's unprivileged child, which Debian makes when its own sshd starts.
        os.makedirs("/run/sshd", exist_ok=True)

        def key(file):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "duality-hosts", "-f",
                self.path(file))

        key("key")
        self.write("authorized_keys", self.read("key.pub"))
        known, config, waits = "", "", []
        for number in self.hosts():
            host, address = self.host(number), self.address(number)
            key(f"host_key_{number}")
            known += f"{host} {self.read(f'host_key_{number}.pub')}"
            config += f"Host {host} web{number}\n  HostName {address}\n  HostKeyAlias {host}\n"
            self.write(f"sshd_config_{number}", f"""ListenAddress {address}
HostKey {self.path(f'host_key_{number}')}
AuthorizedKeysFile {self.path('authorized_keys')}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
PidFile none
MaxStartups 1000
MaxSessions 1000
""")
            file = self.path(f"sshd_config_{number}")
            waits.append(self.daemon(host, "sshd", "sshd", "-D", "-e", "-f", file))
        self.write("known_hosts", known)
        # ssh refuses an unknown host key without a question, and gives up a silent host after 15 s.
        self.write("ssh_config", f"""{config}Host *
  User root
  IdentityFile {self.path('key')}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {self.path('known_hosts')}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 15
  ServerAliveInterval 5
  ServerAliveCountMax 3
""")
        for wait in waits:
            wait(lambda said: "listening" in said)

    # Slurm.

    def start_slurm(self):
        """Starts munged and slurmctld beside the bridge, and a slurmd on each host. Slurm takes a
        machine's host name as the name of its node, so each daemon has its own."""
        file, socket = self.path("slurm.conf"), self.path("munge.socket")
        # These plugins need neither control groups nor a data base.
        config = f"""ClusterName={self.name}
SlurmctldHost={self.switch}({self.address(SWITCH)})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
StateSaveLocation={self.path('slurmctld')}
SlurmdSpoolDir={self.path('slurmd-%n')}
SlurmctldPidFile={self.path('slurmctld.pid')}
SlurmdPidFile={self.path('slurmd-%n.pid')}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
"""
        for number in self.hosts():
            config += (f"NodeName={self.host(number)} NodeAddr={self.address(number)} "
                       f"CPUs={os.cpu_count()} State=UNKNOWN\n")
        # Roles of one host are separate jobs, and share the host's processors.
        self.write("slurm.conf", config + "PartitionName=hosts Nodes=ALL Default=YES "
                   "MaxTime=INFINITE OverSubscribe=FORCE:64\n")
        self.write("munge.key", os.urandom(128))
        files = {part: self.path(f"munge.{part}") for part in ("key", "pid", "log", "seed")}
        self.daemon(
            self.switch, "munged", "munged", "--foreground", f"--socket={socket}",
            *(f"--{part}-file={path}" for part, path in files.items()),
        )(lambda _: os.path.exists(socket))
        os.makedirs(self.path("slurmctld"))
        controller = self.daemon(self.switch, "slurmctld", "slurmctld", "-D", "-f", file)
        waits = {}
        for host in map(self.host, self.hosts()):
            os.makedirs(self.path(f"slurmd-{host}"))
            waits[host] = self.daemon(host, "slurmd", "slurmd", "-D", "-f", file, "-N", host)
        controller(lambda _: self.slurm("sinfo", "--noheader") is not None)
        for host, wait in waits.items():
            state = ("sinfo", "--noheader", "--format=%t", "--nodes", host)
            wait(lambda _, state=state: (self.slurm(*state) or "").strip() == "idle")

    def slurm(self, *words):
        """What a command of Slurm prints. None if Slurm is gone, or not ready."""
        return succeeds(*words, env=os.environ | {"SLURM_CONF": self.path("slurm.conf")})

    # The commands.

    def up(self, target):
        if self.namespaces():
            raise Failure(f"hosts named {self.name}-1, {self.name}-2 … are up: `cargo xtask hosts "
                          f"down{self.flag}` removes them, and `--name` gives others another name")
        network = f"{self.address(0)}/24"
        if route := run(f"ip -4 route show root {network}").strip():
            raise Failure(f"this machine has a network {network} already ({route}): choose another "
                          "by --network")
        parts = {"line": self.is_line(), "ssh": self.plan["ssh"], "slurm": self.plan["slurm"]}
        needs = dict(NEEDS[""])
        for part, is_wanted in parts.items():
            needs |= NEEDS[part] if is_wanted else {}
        missing = sorted({package for program, package in needs.items() if not path_of(program)})
        if missing:
            install = f"apt-get install --yes --no-install-recommends {' '.join(missing)}"
            print(f"installing: {install}", file=sys.stderr)
            run(install)
        # The first namespace is the claim: this fails if another command makes the same rig.
        run(f"ip netns add {self.switch}")
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            self.write("plan", json.dumps(self.plan))
            self.make_network()
            if self.is_line():
                self.make_line(target)
            if self.plan["ssh"]:
                self.start_ssh()
            if self.plan["slurm"]:
                self.start_slurm()
        except BaseException:
            self.remove()
            raise
        self.list()

    def down(self):
        if self.namespaces() or os.path.exists(self.folder):
            self.remove()
        else:
            print(f"no hosts named {self.name}-1, {self.name}-2 … are up")

    def remove(self):
        """Ends all processes of the rig, and removes its namespaces and files."""
        # An srun on this machine would wait for ever for a slurmctld that is gone.
        is_slurm = os.path.exists(self.path("slurm.conf"))
        if is_slurm and self.slurm("scancel", "--partition=hosts") is not None:
            until(lambda: not (self.slurm("squeue", "--noheader") or "").strip())
        self.end_all()
        # The kernel removes a namespace's interfaces some time later, but a deleted link at once,
        # with its other end. A half-made rig may lack this link.
        succeeds(f"ip -n {self.switch} link del port{MACHINE}")
        for namespace in self.namespaces():
            run(f"ip netns del {namespace}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def plug(self, host, state):
        self.made()
        if host not in self.hosts():
            raise Failure(f"there is no host {host}: they are 1 to {self.plan['count']}")
        self.link(f"set port{host} {state}")

    def list(self):
        """The hosts, the processes on each, and how to run a command on a host."""
        self.made()
        last, wide = self.last(), len(self.last())
        print(f"this machine is {self.address(MACHINE)} for the hosts; files are in {self.path('')}")
        if self.is_line():
            line = f"{(self.plan['delay'] or 0) / 1e6:g} ms of round trip, "
            line += f"{(self.plan['loss'] or 0) / 1e4:g} % of packets lost"
            line += f", {self.plan['rate'] / 1e6:g} Mbit/s each way" if self.plan["rate"] else ""
            print(f"{last} is at the end of a line: {line}")
        print(f"\n{'host':<{wide}}  {'address':<15}  {'cable':<7}  processes")
        for number in self.hosts():
            names = []
            for process in self.processes(self.host(number)):
                try:
                    with open(f"/proc/{process}/comm") as name:
                        names.append(f"{name.read().strip()} {process}")
                except OSError:
                    pass  # It has ended in between.
            # `ip` prints the interface only if it is up.
            shown = run(f"ip -n {self.switch} -o link show up dev port{number}").strip()
            cable = "joined" if shown else "cut"
            row = f"{self.host(number):<{wide}}  {self.address(number):<15}  {cable:<7}  "
            print((row + ", ".join(names)).rstrip())
        print(f"\nto run a command on a host:\n  nsenter --net={NAMESPACES}/{last} -- COMMAND")
        if self.plan["ssh"]:
            print(f"  ssh -F {self.path('ssh_config')} {last} COMMAND")
        if self.plan["slurm"]:
            print(f"  SLURM_CONF={self.path('slurm.conf')} srun -w {last} -N1 -n1 COMMAND")


def main():
    target, *words = sys.argv[1:]
    options = parse(words)
    if os.geteuid() != 0:
        print("xtask: hosts are network namespaces, which only root may make: use sudo",
              file=sys.stderr)
        return 2
    rig = Rig(options)
    try:
        match options.command:
            case "up":
                rig.up(target)
            case "down":
                rig.down()
            case "cut" | "join":
                rig.plug(options.host, {"cut": "down", "join": "up"}[options.command])
            case "list":
                rig.list()
    except (Failure, OSError) as problem:
        print(f"xtask: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
