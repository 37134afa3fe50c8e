/* The functions that a program for `duality cc` may call. In a program that is compiled natively
 * these functions do nothing. */
#ifndef DUALITY_H
#define DUALITY_H

#ifdef __cplusplus
extern "C" {
#endif

/* The runtime of a converted program defines these functions. */
extern void duality_detach_task(void) __attribute__((weak));
extern void duality_attach_task(void) __attribute__((weak));

/* Between duality_detach and duality_attach, the kernel schedules the calling thread, with a stack.
 * Code between the two may block or compute for long without the compiler's knowledge, and stops no
 * other thread. Each of the two functions costs a switch of threads. A thread that is cancelled in
 * between ends at its next cancellation point, but a blocking call is not interrupted. */
static inline void duality_detach(void) {
    if (duality_detach_task) duality_detach_task();
}
static inline void duality_attach(void) {
    if (duality_attach_task) duality_attach_task();
}

#ifdef __cplusplus
}
#endif

#endif
