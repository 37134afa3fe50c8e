/* Hard case: setjmp and computed jumps run on a side stack. The program also has a start routine
 * that cannot be converted. */
#include "test.h"
static NOINLINE int blocks(int value) { return WAIT(), value; }
static jmp_buf place;
static NOINLINE void throws(int depth) {
    blocks(1);
    if (!depth) longjmp(place, 5);
    throws(depth - 1);
}
static NOINLINE int catches(int depth) {
    int caught = setjmp(place);
    if (!caught) throws(depth);
    return blocks(caught) + depth;
}
static NOINLINE int interprets(const char *program) {
    static const void *const LABELS[] = {&&add, &&twice, &&wait, &&end};
    int value = 0;
#define NEXT() goto *LABELS[*program++ - 'a']
    NEXT();
add:
    value++;
    NEXT();
twice:
    value *= 2;
    NEXT();
wait:
    value = blocks(value);
    NEXT();
end:
    return value;
}
static void *start(void *argument) { return (void *)((long)argument + catches(3) * 1000 + interprets("acbcaacbd")); }
static void *cannot(void *argument) {
    jmp_buf here;
    volatile long count = 0;
    setjmp(here);
    blocks(1);
    if (++count < 5) longjmp(here, 1);
    return (void *)(count + (long)argument);
}
int main(void) {
    printf("%ld\n", (long)run(start, (void *)1));
    printf("%ld\n", (long)run(cannot, (void *)2));
}
