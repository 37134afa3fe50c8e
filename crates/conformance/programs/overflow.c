/* A thread that uses up its stack. */
#include <pthread.h>
static int down(int n) {
    volatile char pad[200];
    pad[0] = n;
    return down(n + 1) + pad[0];
}
void *begin(void *a) { return (void *)(long)down(a != 0); }
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, begin, 0);
    pthread_join(t, 0);
    return 0;
}
