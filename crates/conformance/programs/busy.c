/* Four threads compute beside a main thread that writes and sleeps. */
#include <pthread.h>
#include <unistd.h>
void *spin(void *a) {
    for (volatile int go = 1; go;) {
    }
    return a;
}
int main(void) {
    pthread_t t;
    for (int i = 0; i < 4; i++) pthread_create(&t, 0, spin, 0);
    alarm(60);
    for (;;) {
        write(1, "x\n", 2);
        usleep(1000);
    }
}
