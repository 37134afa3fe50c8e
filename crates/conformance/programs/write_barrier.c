// Faults as a collector's write barrier does: a page is protected, and the handler of the fault
// opens it. All threads block SIGALRM while the handler runs, so each fault changes the mask of the
// process. Signals come meanwhile, and both threads compute.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { FAULTS = 60000, PAGE = 4096 };

static volatile int stop;
static volatile long opened;
static volatile sig_atomic_t alarms;

static void open_page(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    mprotect((void *)((unsigned long)info->si_addr & ~(PAGE - 1ul)), PAGE, PROT_READ | PROT_WRITE);
    opened++;
}

static void count(int number) {
    (void)number;
    alarms++;
}

static void *compute(void *unused) {
    (void)unused;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    while (!stop)
        ;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGALRM);
    sigaction(SIGSEGV, &action, NULL);
    struct sigaction counting = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &counting, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t beside;
    pthread_create(&beside, NULL, compute, NULL);
    volatile char *page =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long wrong = 0;
    for (long fault = 0; fault < FAULTS; fault++) {
        mprotect((void *)page, PAGE, PROT_NONE);
        *page = (char)fault;
        wrong += *page != (char)fault;
    }
    stop = 1;
    pthread_join(beside, NULL);
    printf("%ld faults, %ld wrong, %s\n", opened, wrong, alarms ? "alarms" : "no alarms");
    return 0;
}
