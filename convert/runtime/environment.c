/* The state that the processor and libc keep for a thread. This state is the floating-point
 * environment (rounding, traps, flags, flush to zero) and the locale of uselocale.
 *
 * Between turns, a thread of a loop has `common` and the global locale. A task that changes its
 * state keeps its own copy, and the thread has this copy for the turns of the task. A task that
 * changes nothing costs two reads of the processor's control words for each turn. */
#include "runtime.h"

/* The environment of tasks without their own. The first thread that makes a task gives its
   environment. */
static fenv_t common;
static bool is_known;
/* The program reads the flags of exceptions, which almost all arithmetic sets. */
static bool flags_matter;

enum { FLAGS = 0x3f };

static void put(const fenv_t *environment) {
    __asm__ volatile("fldenv %0\n\tldmxcsr %1" : : "m"(*environment), "m"(environment->__mxcsr));
}

static void take(fenv_t *environment) {
    /* fnstenv masks all traps, so fldenv restores the stored environment. */
    __asm__ volatile("fnstenv %0\n\tfldenv %0\n\tstmxcsr %1" : "+m"(*environment), "=m"(environment->__mxcsr));
}

static bool is_common(void) {
    unsigned vector;
    unsigned short control, status;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(vector), "=m"(control));
    unsigned differs = vector ^ common.__mxcsr;
    if (!__atomic_load_n(&flags_matter, __ATOMIC_RELAXED)) return !(differs & ~FLAGS) && control == common.__control_word;
    __asm__ volatile("fnstsw %0" : "=a"(status));
    return !differs && control == common.__control_word && !((status ^ common.__status_word) & FLAGS);
}

void environment_of_process(void) {
    if (!is_known) take(&common);
    is_known = true;
}

void environment_of_loop(void) { put(&common); }

static void keep(struct task *task) {
    take(&rare_of(task)->environment);
    task->flags |= OWN;
}

void environment_inherit(struct task *task, const struct rt_program *program) {
    if (program && program->flags & RT_READS_FLAGS) __atomic_store_n(&flags_matter, true, __ATOMIC_RELAXED);
    if (!is_common()) keep(task);
}

void environment_enter(struct task *task) {
    if (!(task->flags & OWN)) return;
    struct rare *rare = task->rare;
    put(&rare->environment);
    if (rare->locale) uselocale(rare->locale);
}

void environment_leave(struct task *task) {
    bool has_common = is_common();
    if (has_common && !(task->flags & OWN)) return;
    keep(task);
    put(&common);
    if (task->rare->locale) uselocale(LC_GLOBAL_LOCALE);
    else if (has_common) task->flags &= ~OWN;
}

locale_t rt_uselocale(locale_t locale) {
    struct task *task = identity();
    locale_t before = uselocale(locale);
    if (task && locale && before) {
        rare_of(task)->locale = locale == LC_GLOBAL_LOCALE ? NULL : locale;
        keep(task);
    }
    return before;
}
