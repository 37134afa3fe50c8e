"""Runs many clients in one process. Each client is a generator that sends and waits for whole
answers.

A client yields `(bytes, complete)`. `complete` gets the arrived bytes, and whether the server has
closed. It returns the length of the answer, or `None` while bytes are missing. The generator
receives the answer.
"""

import errno
import resource
import select
import socket
import time


class Failure(Exception):
    """A client saw something that no client should see."""


def http(buffer, closed):
    """An answer with a length, or up to the end of the connection."""
    head = buffer.find(b"\r\n\r\n")
    if head < 0:
        return None
    for line in bytes(buffer[:head]).lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = head + 4 + int(line[15:])
            return length if len(buffer) >= length else None
    return len(buffer) if closed else None


def exactly(count):
    return lambda buffer, closed: count if len(buffer) >= count else None


def ends_with(mark):
    return lambda buffer, closed: len(buffer) if buffer.endswith(mark) else None


def line(buffer, closed):
    end = buffer.find(b"\n")
    return end + 1 if end >= 0 else None


def redis(buffer, closed):
    """A status, a number or a string of Redis's protocol."""
    end = buffer.find(b"\r\n")
    if end < 0:
        return None
    if buffer[:1] == b"$" and buffer[1:2] != b"-":
        end += 2 + int(buffer[1:end])
    return end + 2 if len(buffer) >= end + 2 else None


def packet(buffer, closed):
    """One packet of MariaDB's protocol."""
    if len(buffer) < 4:
        return None
    length = 4 + int.from_bytes(buffer[:3], "little")
    return length if len(buffer) >= length else None


def result(buffer, closed):
    """A result of MariaDB: one packet, or a set of rows, which the second EOF packet ends."""
    at, ends = 0, 0
    while len(buffer) >= at + 4:
        length = int.from_bytes(buffer[at : at + 3], "little")
        end = at + 4 + length
        if len(buffer) < end:
            return None
        first = buffer[at + 4]
        if at == 0 and first in (0x00, 0xFF):
            return end
        if first == 0xFE and length < 9:
            ends += 1
            if ends == 2:
                return end
        at = end
    return None


def without_date(answer):
    """An answer of HTTP without the time."""
    volatile = (b"date:", b"last-modified:", b"etag:", b"expires:")
    head, mark, body = answer.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(volatile)]
    return b"\r\n".join(lines) + mark + body


class Crowd:
    """Clients that are all connected before any of them goes on."""

    def __init__(self, port, count, conversation, rounds, at_a_time=500):
        self.port, self.count, self.conversation, self.rounds = port, count, conversation, rounds
        self.at_a_time = at_a_time
        self.answers = set()
        self.requests = 0
        self.poll = select.epoll()
        self.clients = {}
        self.waiting = []
        self.opened = self.opening = 0

    def run(self, limit, meanwhile=lambda: None):
        """Runs all clients to their end. `meanwhile` is called once, when all are connected."""
        deadline = time.monotonic() + limit
        called = False
        while self.opened < self.count or self.clients:
            while self.opened < self.count and self.opening < self.at_a_time:
                self.open()
            if time.monotonic() > deadline:
                raise Failure(f"{len(self.clients)} of {self.count} clients have no answer; {self.opened} were opened")
            for number, events in self.poll.poll(1):
                client = self.clients.get(number)
                if client:
                    client.step(events)
            if self.opened == self.count and self.opening == 0 and self.waiting:
                if not called:
                    called = True
                    meanwhile()
                waiting, self.waiting = self.waiting, []
                for client in waiting:
                    client.proceed()
        self.poll.close()

    def open(self):
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # More ports than one address has.
        connection.setsockopt(socket.IPPROTO_IP, 24, 1)
        connection.bind((f"127.0.0.{2 + self.opened // 500}", 0))
        error = connection.connect_ex(("127.0.0.1", self.port))
        if error not in (0, errno.EINPROGRESS):
            raise Failure(f"connect: {errno.errorcode[error]}")
        number = self.opened
        self.opened += 1
        self.opening += 1
        client = Client(self, connection, self.conversation(number, self.rounds))
        self.clients[connection.fileno()] = client
        self.poll.register(connection, select.EPOLLIN | select.EPOLLOUT)


class Client:
    """One of a crowd."""

    def __init__(self, crowd, connection, conversation):
        self.crowd, self.connection, self.conversation = crowd, connection, conversation
        self.buffer = bytearray()
        self.out, self.complete = b"", None
        self.new = self.registered = True
        self.closed = False

    def step(self, events):
        if self.complete is None and self.new:
            self.advance(None)
            return
        try:
            if self.out and events & select.EPOLLOUT:
                self.send()
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self.receive()
        except OSError as error:
            raise Failure(f"{error} after {bytes(self.buffer[-100:])!r}") from error

    def send(self):
        try:
            self.out = self.out[self.connection.send(self.out) :]
        except BlockingIOError:
            pass
        wanted = select.EPOLLIN | (select.EPOLLOUT if self.out else 0)
        self.crowd.poll.modify(self.connection, wanted)

    def receive(self):
        try:
            data = self.connection.recv(1 << 16)
        except BlockingIOError:
            return
        self.buffer += data
        self.closed = not data
        if self.complete is None:
            if self.closed:
                # This client has its answer, and the others have not.
                self.crowd.poll.unregister(self.connection)
                self.registered = False
            return
        length = self.complete(self.buffer, self.closed)
        if length is None:
            if self.closed:
                raise Failure(f"the server closed the connection after {bytes(self.buffer[-200:])!r}")
            return
        answer = bytes(self.buffer[:length])
        del self.buffer[:length]
        self.crowd.requests += 1
        self.complete = None
        if self.new:
            # After the first answer, the client waits until every other client has an answer.
            self.new = False
            self.crowd.opening -= 1
            self.crowd.waiting.append(self)
            self.answer = answer
            return
        self.advance(answer)

    def proceed(self):
        self.advance(self.answer)

    def advance(self, answer):
        try:
            sent, self.complete = self.conversation.send(answer)
            self.out = sent
            if not self.registered:
                raise Failure("the server closed the connection before the client had asked all")
            try:
                self.send()
            except OSError as error:
                raise Failure(str(error)) from error
            if not sent and self.buffer:
                self.receive()
        except StopIteration as end:
            if end.value is not None:
                self.crowd.answers.add(end.value)
            if self.registered:
                self.crowd.poll.unregister(self.connection)
            del self.crowd.clients[self.connection.fileno()]
            self.connection.close()


def get(path, keep=True):
    """Asks for a page, again and again."""

    def conversation(number, rounds):
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\n".encode() + (b"\r\n" if keep else b"Connection: close\r\n\r\n")
        seen = None
        for _ in range(rounds if keep else 1):
            answer = without_date((yield request, http))
            if seen not in (None, answer):
                raise Failure(f"two answers to one question: {seen[:300]!r} {answer[:300]!r}")
            seen = answer
        return seen

    return conversation


def raise_limits():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
