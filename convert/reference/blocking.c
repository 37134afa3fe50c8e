/* The reference runtime: the functions that unconverted code calls. The symbols of this file
 * replace libc's. So `main`, threads that are not converted and calls on side stacks let others run
 * while they wait. The runtime of the product has no such file: it runs such code on a pthread,
 * which may block. */
#include "reference.h"

#define AWAIT(type, call) \
    do { \
        struct type returned = call; \
        if (!returned.handle) return returned.value; \
        park(); \
        return self->operation.value; \
    } while (0)

ssize_t read(int fd, void *to, size_t size) { AWAIT(rt_ssize, rt_read(fd, to, size)); }
ssize_t readv(int fd, const struct iovec *to, int count) { AWAIT(rt_ssize, rt_readv(fd, to, count)); }
ssize_t recv(int fd, void *to, size_t size, int flags) { AWAIT(rt_ssize, rt_recv(fd, to, size, flags)); }
ssize_t recvfrom(int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length) { AWAIT(rt_ssize, rt_recvfrom(fd, to, size, flags, from, length)); }
ssize_t recvmsg(int fd, struct msghdr *message, int flags) { AWAIT(rt_ssize, rt_recvmsg(fd, message, flags)); }
ssize_t write(int fd, const void *from, size_t size) { AWAIT(rt_ssize, rt_write(fd, from, size)); }
ssize_t writev(int fd, const struct iovec *from, int count) { AWAIT(rt_ssize, rt_writev(fd, from, count)); }
ssize_t send(int fd, const void *from, size_t size, int flags) { AWAIT(rt_ssize, rt_send(fd, from, size, flags)); }
ssize_t sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t length) { AWAIT(rt_ssize, rt_sendto(fd, from, size, flags, to, length)); }
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) { AWAIT(rt_ssize, rt_sendmsg(fd, message, flags)); }
ssize_t sendfile(int to, int from, off_t *offset, size_t size) { AWAIT(rt_ssize, rt_sendfile(to, from, offset, size)); }
int accept(int fd, struct sockaddr *from, socklen_t *length) { AWAIT(rt_int, rt_accept(fd, from, length)); }
int accept4(int fd, struct sockaddr *from, socklen_t *length, int flags) { AWAIT(rt_int, rt_accept4(fd, from, length, flags)); }
int connect(int fd, const struct sockaddr *to, socklen_t length) { AWAIT(rt_int, rt_connect(fd, to, length)); }
int poll(struct pollfd *entries, nfds_t count, int limit) { AWAIT(rt_int, rt_poll(entries, count, limit)); }
int ppoll(struct pollfd *entries, nfds_t count, const struct timespec *limit, const sigset_t *mask) { AWAIT(rt_int, rt_ppoll(entries, count, limit, mask)); }
int select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *limit) { AWAIT(rt_int, rt_select(count, in, out, other, limit)); }
int epoll_wait(int fd, struct epoll_event *events, int count, int limit) { AWAIT(rt_int, rt_epoll_wait(fd, events, count, limit)); }
unsigned sleep(unsigned seconds) { AWAIT(rt_uint, rt_sleep(seconds)); }
int usleep(useconds_t time) { AWAIT(rt_int, rt_usleep(time)); }
int nanosleep(const struct timespec *time, struct timespec *left) { AWAIT(rt_int, rt_nanosleep(time, left)); }
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) { AWAIT(rt_int, rt_clock_nanosleep(clock, flags, time, left)); }
int sched_yield(void) { AWAIT(rt_int, rt_sched_yield()); }
int pthread_mutex_lock(pthread_mutex_t *mutex) { AWAIT(rt_int, rt_pthread_mutex_lock(mutex)); }
int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) { AWAIT(rt_int, rt_pthread_mutex_timedlock(mutex, until)); }
int rt_block_pthread_mutex_lock(pthread_mutex_t *mutex) { return pthread_mutex_lock(mutex); }
int rt_block_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) { return pthread_mutex_timedlock(mutex, until); }
int rt_block_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) { AWAIT(rt_int, rt_pthread_mutex_clocklock(mutex, clock, until)); }
int pthread_mutex_trylock(pthread_mutex_t *mutex) { return rt_pthread_mutex_trylock(mutex); }
int pthread_mutex_unlock(pthread_mutex_t *mutex) { return rt_pthread_mutex_unlock(mutex); }
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) { AWAIT(rt_int, rt_pthread_cond_wait(condition, mutex)); }
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) { AWAIT(rt_int, rt_pthread_cond_timedwait(condition, mutex, until)); }
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) { AWAIT(rt_int, rt_pthread_cond_clockwait(condition, mutex, clock, until)); }
int pthread_cond_signal(pthread_cond_t *condition) { return rt_pthread_cond_signal(condition); }
int pthread_cond_broadcast(pthread_cond_t *condition) { return rt_pthread_cond_broadcast(condition); }
int pthread_rwlock_rdlock(pthread_rwlock_t *lock) { AWAIT(rt_int, rt_pthread_rwlock_rdlock(lock)); }
int pthread_rwlock_wrlock(pthread_rwlock_t *lock) { AWAIT(rt_int, rt_pthread_rwlock_wrlock(lock)); }
int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) { AWAIT(rt_int, rt_pthread_rwlock_timedrdlock(lock, until)); }
int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) { AWAIT(rt_int, rt_pthread_rwlock_timedwrlock(lock, until)); }
int pthread_rwlock_unlock(pthread_rwlock_t *lock) { return rt_pthread_rwlock_unlock(lock); }
int pthread_barrier_wait(pthread_barrier_t *barrier) { AWAIT(rt_int, rt_pthread_barrier_wait(barrier)); }
int pthread_spin_lock(pthread_spinlock_t *lock) { AWAIT(rt_int, rt_pthread_spin_lock(lock)); }
int sem_wait(sem_t *semaphore) { AWAIT(rt_int, rt_sem_wait(semaphore)); }
int sem_timedwait(sem_t *semaphore, const struct timespec *until) { AWAIT(rt_int, rt_sem_timedwait(semaphore, until)); }
int sem_post(sem_t *semaphore) { return rt_sem_post(semaphore); }
int sem_trywait(sem_t *semaphore) { return rt_sem_trywait(semaphore); }
int pthread_once(pthread_once_t *once, void (*routine)(void)) {
    struct rt_int first = rt_once_begin(once);
    if (first.handle) park(), first.value = self->operation.value;
    if (first.value) routine(), rt_once_end(once);
    return 0;
}
int pthread_detach(pthread_t thread) { return rt_pthread_detach(thread); }
int pthread_cancel(pthread_t thread) { return rt_pthread_cancel(thread); }
int pthread_setcancelstate(int state, int *before) { return rt_pthread_setcancelstate(state, before); }
void pthread_testcancel(void) {
    if (rt_pthread_testcancel()) rt_block_pthread_exit(PTHREAD_CANCELED);
}
_Noreturn void pthread_exit(void *result) { rt_block_pthread_exit(result); }
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    return rt_spawn(thread, attributes, start, argument, NULL, NULL);
}
int pthread_join(pthread_t thread, void **result) { AWAIT(rt_int, rt_pthread_join(thread, result)); }
int rt_block_pthread_join(pthread_t thread, void **result) { AWAIT(rt_int, rt_pthread_join(thread, result)); }
int rt_block_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) { AWAIT(rt_int, rt_pthread_timedjoin_np(thread, result, until)); }
int rt_block_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) { AWAIT(rt_int, rt_pthread_clockjoin_np(thread, result, clock, until)); }

#if !__has_feature(address_sanitizer)
/* AddressSanitizer asks libc for the thread that it runs on, and keeps its own data for each. */
pthread_t pthread_self(void) { return rt_pthread_self(); }
void *pthread_getspecific(pthread_key_t key) { return rt_pthread_getspecific(key); }
int pthread_setspecific(pthread_key_t key, const void *value) { return rt_pthread_setspecific(key, value); }
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) { return rt_pthread_key_create(key, destructor); }
int pthread_key_delete(pthread_key_t key) { return rt_pthread_key_delete(key); }
#endif
