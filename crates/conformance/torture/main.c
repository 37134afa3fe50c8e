#include "test.h"

static struct {
    const char *name;
    test_function *function;
} tests[1000];
static int count;

void add_test(const char *name, test_function *function) {
    tests[count].name = name;
    tests[count++].function = function;
}

int main(int argc, char **argv) {
    for (int index = 0; index < count; index++) {
        if (argc < 2) {
            puts(tests[index].name);
        } else if (!strcmp(argv[1], tests[index].name)) {
            int result = tests[index].function();
            if (!result) {
                printf("ok\n");
            }
            return result;
        }
    }
    return argc < 2 ? 0 : 2;
}
