/* Primitives that wait for descriptors. */
#include "runtime.h"

#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS(...) (const long[6]){__VA_ARGS__}
#define WORD(value) ((long)(value))

static inline struct rt_ssize long_call(long number, const long arguments[6]) { return call_begin(self, SHAPE_ERRNO, number, arguments); }

static inline struct rt_int int_call(long number, const long arguments[6]) {
    struct rt_ssize result = call_begin(self, SHAPE_ERRNO, number, arguments);
    return (struct rt_int){result.handle, (int)result.value};
}

#define LONG_CALL(plain, number, ...) (on_loop() ? long_call(number, WORDS(__VA_ARGS__)) : PLAIN(struct rt_ssize, plain))
#define INT_CALL(plain, number, ...) (on_loop() ? int_call(number, WORDS(__VA_ARGS__)) : PLAIN(struct rt_int, plain))

struct rt_ssize rt_read(int fd, void *to, size_t size) { return LONG_CALL(read(fd, to, size), SYS_read, fd, WORD(to), WORD(size)); }
struct rt_ssize rt_readv(int fd, const struct iovec *to, int count) { return LONG_CALL(readv(fd, to, count), SYS_readv, fd, WORD(to), count); }
struct rt_ssize rt_recv(int fd, void *to, size_t size, int flags) {
    return LONG_CALL(recv(fd, to, size, flags), SYS_recvfrom, fd, WORD(to), WORD(size), flags);
}
struct rt_ssize rt_recvfrom(int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length) {
    return LONG_CALL(recvfrom(fd, to, size, flags, from, length), SYS_recvfrom, fd, WORD(to), WORD(size), flags, WORD(from), WORD(length));
}
struct rt_ssize rt_recvmsg(int fd, struct msghdr *message, int flags) {
    return LONG_CALL(recvmsg(fd, message, flags), SYS_recvmsg, fd, WORD(message), flags);
}
struct rt_ssize rt_write(int fd, const void *from, size_t size) { return LONG_CALL(write(fd, from, size), SYS_write, fd, WORD(from), WORD(size)); }
struct rt_ssize rt_writev(int fd, const struct iovec *from, int count) {
    return LONG_CALL(writev(fd, from, count), SYS_writev, fd, WORD(from), count);
}
struct rt_ssize rt_send(int fd, const void *from, size_t size, int flags) {
    return LONG_CALL(send(fd, from, size, flags), SYS_sendto, fd, WORD(from), WORD(size), flags);
}
struct rt_ssize rt_sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    return LONG_CALL(sendto(fd, from, size, flags, to, length), SYS_sendto, fd, WORD(from), WORD(size), flags, WORD(to), length);
}
struct rt_ssize rt_sendmsg(int fd, const struct msghdr *message, int flags) {
    return LONG_CALL(sendmsg(fd, message, flags), SYS_sendmsg, fd, WORD(message), flags);
}
struct rt_ssize rt_sendfile(int to, int from, off_t *offset, size_t size) {
    return LONG_CALL(sendfile(to, from, offset, size), SYS_sendfile, to, from, WORD(offset), WORD(size));
}
struct rt_int rt_accept(int fd, struct sockaddr *from, socklen_t *length) {
    return INT_CALL(accept(fd, from, length), SYS_accept, fd, WORD(from), WORD(length));
}
struct rt_int rt_accept4(int fd, struct sockaddr *from, socklen_t *length, int flags) {
    return INT_CALL(accept4(fd, from, length, flags), SYS_accept4, fd, WORD(from), WORD(length), flags);
}
struct rt_int rt_connect(int fd, const struct sockaddr *to, socklen_t length) {
    return INT_CALL(connect(fd, to, length), SYS_connect, fd, WORD(to), length);
}

/* ---- Several descriptors ----
 *
 * ppoll, pselect and epoll_pwait may have a mask of signals that is not the task's. Only a thread can
 * change its mask and wait in one step. So a side thread makes such a call. */

static bool has_own_mask(const sigset_t *mask) { return mask && on_loop() && !mask_is(self, mask); }

static struct rt_int masked_call(long number, const long arguments[6]) {
    return (struct rt_int){call_aside_begin(self, number, arguments), 0};
}

struct rt_int rt_poll(struct pollfd *entries, nfds_t count, int limit) {
    return INT_CALL(poll(entries, count, limit), SYS_poll, WORD(entries), WORD(count), limit);
}

/* The kernel overwrites the time-out with the remaining time, and libc promises not to. So the call
 * gets a copy. */
static const struct timespec *copy(const struct timespec *limit) {
    if (!limit || !on_loop()) return NULL;
    struct rare *rare = rare_of(self);
    rare->time = *limit;
    return &rare->time;
}

struct rt_int rt_ppoll(struct pollfd *entries, nfds_t count, const struct timespec *limit, const sigset_t *mask) {
    if (has_own_mask(mask)) return masked_call(SYS_ppoll, WORDS(WORD(entries), WORD(count), WORD(copy(limit)), WORD(mask), sizeof(long)));
    return INT_CALL(ppoll(entries, count, limit, mask), SYS_ppoll, WORD(entries), WORD(count), WORD(copy(limit)), 0, sizeof(long));
}
struct rt_int rt_select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *limit) {
    return INT_CALL(select(count, in, out, other, limit), SYS_select, count, WORD(in), WORD(out), WORD(other), WORD(limit));
}
struct rt_int rt_pselect(int count, fd_set *in, fd_set *out, fd_set *other, const struct timespec *limit, const sigset_t *mask) {
    if (has_own_mask(mask)) {
        struct rare *rare = rare_of(self);
        rare->masked[0] = WORD(mask);
        rare->masked[1] = sizeof(long);
        return masked_call(SYS_pselect6, WORDS(count, WORD(in), WORD(out), WORD(other), WORD(copy(limit)), WORD(rare->masked)));
    }
    return INT_CALL(pselect(count, in, out, other, limit, mask), SYS_pselect6, count, WORD(in), WORD(out), WORD(other), WORD(copy(limit)), 0);
}
struct rt_int rt_epoll_wait(int fd, struct epoll_event *events, int count, int limit) {
    return INT_CALL(epoll_wait(fd, events, count, limit), SYS_epoll_wait, fd, WORD(events), count, limit);
}
struct rt_int rt_epoll_pwait(int fd, struct epoll_event *events, int count, int limit, const sigset_t *mask) {
    if (has_own_mask(mask)) return masked_call(SYS_epoll_pwait, WORDS(fd, WORD(events), count, limit, WORD(mask), sizeof(long)));
    return INT_CALL(epoll_pwait(fd, events, count, limit, mask), SYS_epoll_wait, fd, WORD(events), count, limit);
}
