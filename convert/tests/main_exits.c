/* main ends by pthread_exit. The process goes on until its last thread has ended.
 * Runtime: product */
#include "test.h"
static pthread_t first;
static void *last(void *argument) {
    void *result = (void *)5;
#if !__has_feature(address_sanitizer)
    /* AddressSanitizer does not allow a thread to join main. */
    pthread_join(first, &result);
#endif
    usleep(1000);
    printf("last %ld\n", (long)result);
    return argument;
}
int main(void) {
    pthread_t thread;
    first = pthread_self();
    pthread_create(&thread, NULL, last, NULL);
    pthread_detach(thread);
    puts("main");
    fflush(stdout);
    pthread_exit((void *)5);
}
