/* Hard case: functions with variable arguments that block. */
#include "test.h"
struct small { int a; char b; };
struct large { long a[5]; double d; };
struct floats { double x, y; };
static NOINLINE long sum(const char *kinds, ...) {
    va_list list, copy;
    long total = 0;
    va_start(list, kinds);
    va_copy(copy, list);
    for (int round = 0; round < 2; round++) {
        for (const char *kind = kinds; *kind; kind++) {
            WAIT();
            switch (*kind) {
            case 'i': total += va_arg(list, int); break;
            case 'l': total += va_arg(list, long); break;
            case 'd': total += (long)(va_arg(list, double) * 10); break;
            case 'D': total += (long)(va_arg(list, long double) * 100); break;
            case 's': total += strlen(va_arg(list, char *)); break;
            case 'S': { struct small value = va_arg(list, struct small); total += value.a + value.b; break; }
            case 'L': { struct large value = va_arg(list, struct large); total += value.a[4] + (long)value.d; break; }
            case 'F': { struct floats value = va_arg(list, struct floats); total += (long)(value.x + value.y); break; }
            }
        }
        va_end(list);
        if (round == 0) va_copy(list, copy);
    }
    va_end(copy);
    return total;
}
static NOINLINE void log_line(char *to, const char *format, ...) {
    char line[200];
    va_list list;
    va_start(list, format);
    WAIT();
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    WAIT();
    strcat(to, line);
}
static NOINLINE int takes_list(const char *format, va_list list) {
    char line[100];
    WAIT();
    return vsnprintf(line, sizeof line, format, list);
}
static NOINLINE int through(const char *format, ...) {
    va_list list;
    va_start(list, format);
    WAIT();
    int count = takes_list(format, list);
    va_end(list);
    return count;
}
static long (*volatile pointer)(const char *, ...) = sum;
static char text[1000];
static void *start(void *argument) {
    struct small small = {3, 4};
    struct large large = {{1, 2, 3, 4, 5}, 6.5};
    struct floats floats = {1.5, 2.5};
    *(long *)argument = sum("ildDsSLFi", 1, 2l, 3.5, 4.25L, "five!", small, large, floats, 8);
    *(long *)argument += sum("iiiiiiiiidddddddddd", 1, 2, 3, 4, 5, 6, 7, 8, 9, 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.);
    *(long *)argument += sum("") + pointer("dLi", 1.5, large, 3) + through("%s %d %.3f", "abc", 5, 1.25);
    log_line(text, "%d %s %.2f %Lf\n", 5, "text", 2.5, 1.0L);
    log_line(text, "no arguments\n");
    return NULL;
}
int main(void) {
    long total;
    run(start, &total);
    printf("%ld\n%s", total, text);
}
