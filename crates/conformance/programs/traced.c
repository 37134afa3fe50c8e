/* Three threads wait in read(2). Any process may trace them, so that the test needs no privilege.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *nap(void *a) {
    char b;
    return (void *)read(*(int *)a, &b, 1);
}
int main(void) {
    int ends[2];
    pthread_t t[3];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pipe(ends)) return 1;
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, nap, &ends[0]);
    usleep(50000);
    puts("ready");
    fflush(stdout);
    pause();
}
