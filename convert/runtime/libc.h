/* libc's own functions, which the runtime replaces for libraries (front.c). */
#ifndef DUALITY_LIBC_H
#define DUALITY_LIBC_H

#include <pthread.h>

int libc_pthread_join(pthread_t, void **);
int libc_pthread_detach(pthread_t);
int libc_pthread_cancel(pthread_t);
int libc_pthread_kill(pthread_t, int signal);
int libc_pthread_cond_signal(pthread_cond_t *);
int libc_pthread_cond_broadcast(pthread_cond_t *);
int libc_pthread_rwlock_unlock(pthread_rwlock_t *);

#endif
