/* The reference runtime: operations on descriptors. The runtime tries sockets with MSG_DONTWAIT,
 * and asks other descriptors by poll first. */
#include "reference.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>

/* This runtime replaces libc's own functions (blocking.c), so it calls the kernel by number. */
#define CALL(name, ...) syscall(SYS_##name, __VA_ARGS__)

static bool never_blocks(int descriptor) {
    int saved = errno, flags = fcntl(descriptor, F_GETFL);
    errno = saved;
    return flags >= 0 && flags & O_NONBLOCK;
}

static bool is_ready(int descriptor, short events) {
    struct pollfd entry = {descriptor, events, 0};
    int saved = errno;
    long count = CALL(poll, &entry, 1, 0);
    errno = saved;
    return count != 0;
}

/* Ends the attempt unless the operation must wait for `events`. The wait ends after the time of the
 * socket's option. */
static bool wait_for(struct operation *operation, int descriptor, unsigned events, int option, long value) {
    if (value >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return complete(operation, value);
    if (never_blocks(descriptor)) {
        errno = EAGAIN;
        return complete(operation, -1);
    }
    if (operation->timed_out) {
        errno = EAGAIN;
        return complete(operation, operation->done ? (long)operation->done : -1);
    }
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    errno = operation->error;
    int saved = errno;
    if (!operation->deadline && option && !getsockopt(descriptor, SOL_SOCKET, option, &limit, &size) && (limit.tv_sec || limit.tv_usec)) {
        operation->deadline = now() + limit.tv_sec * 1000000000ull + limit.tv_usec * 1000ull;
    }
    errno = saved;
    operation->descriptor = descriptor;
    operation->events = events;
    operation->interruptible = true;
    return false;
}

static long would_block(void) {
    errno = EAGAIN;
    return -1;
}

static bool try_recvfrom(struct operation *o) {
    int flags = o->argument[3];
    long value = CALL(recvfrom, o->argument[0], o->argument[1], o->argument[2], flags | MSG_DONTWAIT, o->argument[4], o->argument[5]);
    if (value < 0 && flags & MSG_DONTWAIT) return complete(o, value);
    if (flags & MSG_WAITALL && !(flags & MSG_PEEK) && value > 0 && value < o->argument[2]) {
        o->done += value;
        o->argument[1] += value;
        o->argument[2] -= value;
        return try_recvfrom(o);
    }
    if (value >= 0) value += o->done;
    else if (o->done && errno != EAGAIN) value = o->done;
    return wait_for(o, o->argument[0], EPOLLIN | EPOLLRDHUP, SO_RCVTIMEO, value);
}

static bool try_read(struct operation *o) {
    int descriptor = o->argument[0];
    long value = CALL(recvfrom, descriptor, o->argument[1], o->argument[2], MSG_DONTWAIT, 0l, 0l);
    if (value < 0 && errno == ENOTSOCK) {
        errno = o->error;
        value = never_blocks(descriptor) || is_ready(descriptor, POLLIN) ? CALL(read, descriptor, o->argument[1], o->argument[2]) : would_block();
    }
    return wait_for(o, descriptor, EPOLLIN | EPOLLRDHUP, SO_RCVTIMEO, value);
}

static bool try_readv(struct operation *o) {
    int descriptor = o->argument[0];
    long value = never_blocks(descriptor) || is_ready(descriptor, POLLIN) ? CALL(readv, descriptor, o->argument[1], o->argument[2]) : would_block();
    return wait_for(o, descriptor, EPOLLIN | EPOLLRDHUP, SO_RCVTIMEO, value);
}

static bool try_recvmsg(struct operation *o) {
    int flags = o->argument[2];
    long value = CALL(recvmsg, o->argument[0], o->argument[1], flags | MSG_DONTWAIT);
    if (value < 0 && flags & MSG_DONTWAIT) return complete(o, value);
    return wait_for(o, o->argument[0], EPOLLIN | EPOLLRDHUP, SO_RCVTIMEO, value);
}

/* A blocking write ends when all is written, so `done` counts the written parts. */
static bool sent(struct operation *o, int descriptor, long value, size_t whole) {
    if (value > 0) o->done += value;
    if (o->done >= whole && value >= 0) return complete(o, o->done);
    if (value < 0 && errno != EAGAIN) return complete(o, o->done ? (long)o->done : -1);
    if (never_blocks(descriptor) && o->done) return complete(o, o->done);
    errno = EAGAIN;
    return wait_for(o, descriptor, EPOLLOUT, SO_SNDTIMEO, -1);
}

static bool try_sendto(struct operation *o) {
    int descriptor = o->argument[0], flags = o->argument[3];
    size_t whole = o->argument[2];
    long value = CALL(sendto, descriptor, o->argument[1] + o->done, whole - o->done, flags | MSG_DONTWAIT, o->argument[4], o->argument[5]);
    if (flags & MSG_DONTWAIT) return complete(o, value);
    return sent(o, descriptor, value, whole);
}

static bool try_write(struct operation *o) {
    int descriptor = o->argument[0];
    size_t whole = o->argument[2], left = whole - o->done;
    long value = CALL(sendto, descriptor, o->argument[1] + o->done, left, MSG_DONTWAIT, 0l, 0l);
    if (value >= 0 || errno != ENOTSOCK) return sent(o, descriptor, value, whole);
    errno = o->error;
    if (never_blocks(descriptor)) return complete(o, CALL(write, descriptor, o->argument[1], whole));
    /* A ready pipe takes this many bytes without blocking. */
    value = is_ready(descriptor, POLLOUT) ? CALL(write, descriptor, o->argument[1] + o->done, left < PIPE_BUF ? left : PIPE_BUF) : would_block();
    if (value > 0 && o->done + value < whole) {
        o->done += value;
        return try_write(o);
    }
    return sent(o, descriptor, value, whole);
}

static bool try_sendmsg(struct operation *o) {
    int descriptor = o->argument[0], flags = o->argument[2];
    struct msghdr message = *(struct msghdr *)o->argument[1];
    if (message.msg_iovlen > IOV_MAX) return complete(o, CALL(sendmsg, descriptor, &message, flags));
    struct iovec parts[message.msg_iovlen + 1];
    size_t whole = 0, skip = o->done, count = 0;
    for (size_t index = 0; index < message.msg_iovlen; index++) {
        struct iovec part = message.msg_iov[index];
        whole += part.iov_len;
        size_t over = skip < part.iov_len ? skip : part.iov_len;
        skip -= over;
        if (part.iov_len == over) continue;
        parts[count++] = (struct iovec){(char *)part.iov_base + over, part.iov_len - over};
    }
    message.msg_iov = parts;
    message.msg_iovlen = count;
    if (o->done) message.msg_controllen = 0;
    long value = CALL(sendmsg, descriptor, &message, flags | MSG_DONTWAIT);
    if (value < 0 && errno == ENOTSOCK && o->step) {
        size_t size = count && parts[0].iov_len < PIPE_BUF ? parts[0].iov_len : PIPE_BUF;
        value = is_ready(descriptor, POLLOUT) ? CALL(write, descriptor, count ? parts[0].iov_base : NULL, count ? size : 0) : would_block();
    }
    if (flags & MSG_DONTWAIT) return complete(o, value);
    return sent(o, descriptor, value, whole);
}

static bool try_writev(struct operation *o) {
    struct msghdr message = {.msg_iov = (struct iovec *)o->argument[1], .msg_iovlen = o->argument[2]};
    long vector = o->argument[1], count = o->argument[2];
    o->argument[1] = (long)&message;
    o->argument[2] = 0;
    o->step = 1;
    bool done = try_sendmsg(o);
    o->argument[1] = vector;
    o->argument[2] = count;
    return done;
}

static bool try_sendfile(struct operation *o) {
    int to = o->argument[0];
    long value = never_blocks(to) || is_ready(to, POLLOUT) ? CALL(sendfile, to, o->argument[1], o->argument[2], o->argument[3] < 65536 ? o->argument[3] : 65536)
                                                         : would_block();
    return wait_for(o, to, EPOLLOUT, SO_SNDTIMEO, value);
}

static bool try_accept(struct operation *o) {
    int listener = o->argument[0];
    long value = never_blocks(listener) || is_ready(listener, POLLIN)
                     ? CALL(accept4, listener, o->argument[1], o->argument[2], o->argument[3])
                     : would_block();
    return wait_for(o, listener, EPOLLIN, SO_RCVTIMEO, value);
}

static bool try_connect(struct operation *o) {
    int descriptor = o->argument[0], flags = fcntl(descriptor, F_GETFL), problem = 0;
    if (o->step == 0) {
        if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
        long value = CALL(connect, descriptor, o->argument[1], o->argument[2]);
        int saved = errno;
        if (flags >= 0) fcntl(descriptor, F_SETFL, flags);
        errno = saved;
        if (!value || errno != EINPROGRESS || flags & O_NONBLOCK) return complete(o, value);
        o->step = 1;
    } else if (is_ready(descriptor, POLLOUT)) {
        socklen_t size = sizeof problem;
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &size);
        if (problem) errno = problem;
        return complete(o, problem ? -1 : 0);
    }
    errno = EAGAIN;
    return wait_for(o, descriptor, EPOLLOUT, 0, -1);
}

/* ---- Several descriptors ---- */

static void add_watch(struct operation *o, size_t most, int descriptor, unsigned events) {
    if (!o->watches) o->watches = calloc(most, sizeof *o->watches);
    o->watches[o->watch_count++] = (struct watch){.descriptor = descriptor, .events = events};
}

static bool try_poll(struct operation *o) {
    struct pollfd *entries = (struct pollfd *)o->argument[0];
    size_t count = o->argument[1];
    long value = CALL(poll, entries, count, 0);
    if (value || o->timed_out || o->argument[2] == 0) return complete(o, value);
    for (size_t index = 0; index < count; index++) {
        unsigned events = entries[index].events & (POLLIN | POLLOUT | POLLPRI | POLLRDHUP);
        if (entries[index].fd >= 0) add_watch(o, count, entries[index].fd, events);
    }
    if (!o->deadline && o->argument[2] > 0) o->deadline = now() + o->argument[2] * 1000000ull;
    o->interruptible = true;
    return false;
}

static bool try_select(struct operation *o) {
    int count = o->argument[0];
    fd_set *wanted[3] = {(fd_set *)o->argument[1], (fd_set *)o->argument[2], (fd_set *)o->argument[3]}, sets[3];
    static const unsigned EVENTS[3] = {EPOLLIN, EPOLLOUT, EPOLLPRI};
    long limit = o->argument[4];
    struct timeval zero = {0, 0};
    for (int index = 0; index < 3; index++) {
        if (wanted[index]) sets[index] = *wanted[index];
    }
    long value = CALL(select, count, wanted[0] ? &sets[0] : NULL, wanted[1] ? &sets[1] : NULL, wanted[2] ? &sets[2] : NULL, &zero);
    if (value || o->timed_out || limit == 0) {
        for (int index = 0; index < 3 && value >= 0; index++) {
            if (wanted[index]) *wanted[index] = sets[index];
        }
        return complete(o, value);
    }
    for (int descriptor = 0; descriptor < count; descriptor++) {
        unsigned events = 0;
        for (int index = 0; index < 3; index++) {
            if (wanted[index] && FD_ISSET(descriptor, wanted[index])) events |= EVENTS[index];
        }
        if (events) add_watch(o, count, descriptor, events);
    }
    if (!o->deadline && limit > 0) o->deadline = now() + limit;
    o->interruptible = true;
    return false;
}

static bool try_epoll_wait(struct operation *o) {
    long value = CALL(epoll_wait, o->argument[0], o->argument[1], o->argument[2], 0);
    if (value || o->timed_out || o->argument[3] == 0) return complete(o, value);
    o->descriptor = o->argument[0];
    o->events = EPOLLIN;
    if (!o->deadline && o->argument[3] > 0) o->deadline = now() + o->argument[3] * 1000000ull;
    o->interruptible = true;
    return false;
}

/* ---- The primitives ---- */

#define WORD(value) (long)(value)
struct rt_ssize rt_read(int fd, void *to, size_t size) { return PERFORM(struct rt_ssize, try_read, fd, WORD(to), size); }
struct rt_ssize rt_readv(int fd, const struct iovec *to, int count) { return PERFORM(struct rt_ssize, try_readv, fd, WORD(to), count); }
struct rt_ssize rt_recv(int fd, void *to, size_t size, int flags) { return PERFORM(struct rt_ssize, try_recvfrom, fd, WORD(to), size, flags, 0, 0); }
struct rt_ssize rt_recvfrom(int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length) {
    return PERFORM(struct rt_ssize, try_recvfrom, fd, WORD(to), size, flags, WORD(from), WORD(length));
}
struct rt_ssize rt_recvmsg(int fd, struct msghdr *message, int flags) { return PERFORM(struct rt_ssize, try_recvmsg, fd, WORD(message), flags); }
struct rt_ssize rt_write(int fd, const void *from, size_t size) { return PERFORM(struct rt_ssize, try_write, fd, WORD(from), size); }
struct rt_ssize rt_writev(int fd, const struct iovec *from, int count) { return PERFORM(struct rt_ssize, try_writev, fd, WORD(from), count); }
struct rt_ssize rt_send(int fd, const void *from, size_t size, int flags) { return PERFORM(struct rt_ssize, try_sendto, fd, WORD(from), size, flags, 0, 0); }
struct rt_ssize rt_sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    return PERFORM(struct rt_ssize, try_sendto, fd, WORD(from), size, flags, WORD(to), length);
}
struct rt_ssize rt_sendmsg(int fd, const struct msghdr *message, int flags) { return PERFORM(struct rt_ssize, try_sendmsg, fd, WORD(message), flags); }
struct rt_ssize rt_sendfile(int to, int from, off_t *offset, size_t size) { return PERFORM(struct rt_ssize, try_sendfile, to, from, WORD(offset), size); }
struct rt_int rt_accept(int fd, struct sockaddr *from, socklen_t *length) { return PERFORM(struct rt_int, try_accept, fd, WORD(from), WORD(length), 0); }
struct rt_int rt_accept4(int fd, struct sockaddr *from, socklen_t *length, int flags) {
    return PERFORM(struct rt_int, try_accept, fd, WORD(from), WORD(length), flags);
}
struct rt_int rt_connect(int fd, const struct sockaddr *to, socklen_t length) { return PERFORM(struct rt_int, try_connect, fd, WORD(to), length); }
struct rt_int rt_poll(struct pollfd *entries, nfds_t count, int limit) { return PERFORM(struct rt_int, try_poll, WORD(entries), count, limit); }
struct rt_int rt_ppoll(struct pollfd *entries, nfds_t count, const struct timespec *limit, const sigset_t *mask) {
    (void)mask;
    return PERFORM(struct rt_int, try_poll, WORD(entries), count, limit ? limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000 : -1);
}
struct rt_int rt_select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *limit) {
    long time = limit ? limit->tv_sec * 1000000000l + limit->tv_usec * 1000l : -1;
    return PERFORM(struct rt_int, try_select, count, WORD(in), WORD(out), WORD(other), time);
}
struct rt_int rt_pselect(int count, fd_set *in, fd_set *out, fd_set *other, const struct timespec *limit, const sigset_t *mask) {
    (void)mask;
    long time = limit ? limit->tv_sec * 1000000000l + limit->tv_nsec : -1;
    return PERFORM(struct rt_int, try_select, count, WORD(in), WORD(out), WORD(other), time);
}
struct rt_int rt_epoll_wait(int fd, struct epoll_event *events, int count, int limit) {
    return PERFORM(struct rt_int, try_epoll_wait, fd, WORD(events), count, limit);
}
struct rt_int rt_epoll_pwait(int fd, struct epoll_event *events, int count, int limit, const sigset_t *mask) {
    (void)mask;
    return rt_epoll_wait(fd, events, count, limit);
}
