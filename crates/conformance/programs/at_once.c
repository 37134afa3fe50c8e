/* Calls that may wait for another process, but do not have to here. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <unistd.h>
int main(void) {
    struct {
        long type;
        char byte;
    } message = {1, 'x'};
    int queue = msgget(IPC_PRIVATE, 0600), failed = msgsnd(queue, &message, 1, 0);
    failed |= msgrcv(queue, &message, 1, 0, 0) != 1;
    msgctl(queue, IPC_RMID, 0);
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    struct timespec second = {1, 0};
    failed |= semop(set, &up, 1) | semtimedop(set, &down, 1, &second);
    semctl(set, 0, IPC_RMID);
    struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 1};
    char name[40], byte;
    sprintf(name, "/first.%d", getpid());
    mqd_t box = mq_open(name, O_RDWR | O_CREAT, 0600, &one);
    mq_unlink(name);
    failed |= mq_send(box, "x", 1, 0) | (mq_receive(box, &byte, 1, 0) != 1);
    int from[2], to[2];
    failed |= pipe(from) | pipe(to) | (write(from[1], "x", 1) != 1);
    failed |= tee(from[0], to[1], 1, 0) != 1 || splice(from[0], 0, to[1], 0, 1, 0) != 1;
    FILE *file = tmpfile();
    struct flock lock = {.l_type = F_WRLCK};
    failed |= fcntl(fileno(file), F_SETLKW, &lock);
    return failed;
}
