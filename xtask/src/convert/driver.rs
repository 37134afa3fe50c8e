//! Tests of the driver, `duality cc`, as build systems call it.

mod natively;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{folder, source};
use crate::failure::{At as _, Result};
use crate::{Workspace, files, tools};

/// One test of the driver. The error says what is wrong.
type Test = fn(&Driver) -> Result;

struct Driver {
    /// The script that makes gdb show the calls of a waiting thread.
    script: PathBuf,
    command: PathBuf,
    work: PathBuf,
}

pub(super) fn run(workspace: &Workspace) -> Result {
    let folder = folder(workspace);
    let work = folder.join("driver");
    // What an earlier run linked would come from the cache, without its warnings.
    files::remove(&work)?;
    files::make(&work)?;
    let driver = Driver {
        command: workspace.target.join("debug/duality"),
        work,
        script: source(workspace).join("gdb.py"),
    };
    driver.write_sources(&source(workspace).join("tests"))?;
    driver.write_sources_of_libraries()?;
    driver.write_sources_of_ends()?;
    let steps: [(&str, Test); 17] = [
        ("the same link", Driver::again),
        ("an archive", Driver::archive),
        ("a language", Driver::language),
        ("C by both compilers", Driver::unchanged),
        ("C++", Driver::cxx),
        ("waits of C++", Driver::waits),
        ("a library that joins", Driver::joined),
        ("hazards", Driver::hazards),
        ("hazards of C++", Driver::hazards_of_cxx),
        ("probes", Driver::probes),
        ("a shared library", Driver::shared_library),
        ("a static program", Driver::static_program),
        ("a graph", Driver::graph),
        ("gdb", Driver::stack),
        ("a thread that computes", Driver::held),
        ("CMake's optimisation of whole programs", Driver::utilities),
        ("what is not converted", Driver::natively),
    ];
    for (name, step) in steps {
        step(&driver).at(format_args!("duality cc: {name}"))?;
    }
    println!("{} tests of the driver", steps.len());
    Ok(())
}

impl Driver {
    fn write_sources(&self, tests: &Path) -> Result {
        let write = |name: &str, text: &str| fs::write(self.work.join(name), text).at(name);
        write(
            "waits.c",
            "#include <unistd.h>\nint waits(int value) { usleep(1); return value + 1; }\n",
        )?;
        write(
            "main.c",
            "#include \"test.h\"\nint waits(int);\n\
             static void *start(void *argument) { return (void *)(long)waits((int)(long)argument); }\n\
             int main(void) { printf(\"%ld\\n\", (long)run(start, (void *)41)); }\n",
        )?;
        // On one loop, a thread that has written to `main` already waits when `main` reads.
        write(
            "parked.c",
            "#include \"test.h\"\nstatic int told[2], asked[2];\n\
             NOINLINE static long waits(void) { char byte; return read(asked[0], &byte, 1); }\n\
             static void *start(void *argument) { write(told[1], \"t\", 1); return (void *)waits(); }\n\
             NOINLINE static void marker(void) { write(asked[1], \"a\", 1); }\n\
             int main(void) { pthread_t thread; char byte; pipe(told); pipe(asked);\n\
             pthread_create(&thread, NULL, start, NULL); read(told[0], &byte, 1); marker();\n\
             return pthread_join(thread, NULL); }\n",
        )?;
        // One thread computes while the other, of the same loop, is ready. `main` prints the line
        // that it is told, and ends.
        write(
            "holds.c",
            "#include \"test.h\"\nstatic volatile long sum;\n\
             NOINLINE static void computes(void) { for (long i = 0; i < 1l << 34; i++) sum += i; }\n\
             static void *heavy(void *argument) { pthread_setname_np(pthread_self(), \"heavy\");\n\
             WAIT(); computes(); WAIT(); return argument; }\n\
             static void *light(void *argument) { for (;;) WAIT(); }\n\
             int main(void) { pthread_t thread; int ends[2]; char line[300];\n\
             pipe(ends); dup2(ends[1], 2); pthread_create(&thread, NULL, light, NULL);\n\
             pthread_create(&thread, NULL, heavy, NULL);\n\
             ssize_t length = read(ends[0], line, sizeof line); write(1, line, length); _exit(0); }\n",
        )?;
        write("plain.c", "int main(void) { return 0; }\n")?;
        // A source that is both C and C++.
        write(
            "whole.c",
            "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
             static void *start(void *argument) { usleep(1); return argument; }\n\
             int main(void) { pthread_t thread; void *result; pthread_create(&thread, NULL, start, (void *)42);\n\
             pthread_join(thread, &result); printf(\"%ld\\n\", (long)result); return 0; }\n",
        )?;
        write(
            "state.c",
            "#include \"test.h\"\nstatic void *waits(void *argument) {\n\
             puts(strerror(1)); usleep(1); puts(strerror(2)); return argument; }\n\
             static void *computes(void *argument) { return argument; }\n\
             int main(void) { run(waits, NULL); run(computes, NULL); run(computes, NULL); return 0; }\n",
        )?;
        for name in ["test.h", "check.h", "cleanup.c", "coroutines.cc"] {
            fs::copy(tests.join(name), self.work.join(name)).at(name)?;
        }
        Ok(())
    }

    /// Writes sources with threads in C++, and a library that gets threads of the program.
    fn write_sources_of_libraries(&self) -> Result {
        let write = |name: &str, text: &str| fs::write(self.work.join(name), text).at(name);
        write(
            "thread.cc",
            "#include <cstdio>\n#include <thread>\n#include <unistd.h>\n\
             int main() { int value = 0; std::thread thread([&] { usleep(1); value = 42; });\n\
             thread.join(); std::printf(\"%d\\n\", value); }\n",
        )?;
        write("libcxx.c", "void _ZNSt3__15mutex4lockEv(void *mutex) {}\n")?;
        write(
            "locks.c",
            "#include \"test.h\"\nvoid _ZNSt3__15mutex4lockEv(void *);\
             static void *start(void *mutex) { _ZNSt3__15mutex4lockEv(mutex); usleep(1); return mutex; }\n\
             int main(void) { char mutex[40]; run(start, mutex); return 0; }\n",
        )?;
        // A hundred threads wait for an atomic variable, and as many for a static variable.
        write(
            "waits.cc",
            "#include <atomic>\n#include <cstdio>\n#include <fstream>\n#include <latch>\n\
             #include <string>\n#include <thread>\n#include <vector>\n#include <semaphore.h>\n\
             static std::atomic<int> told, go; static std::latch here(100); static sem_t opens;\n\
             struct Made { Made() { sem_wait(&opens); } };\n\
             static void is_made() { static Made made; }\n\
             static int kibibytes() { std::ifstream file(\"/proc/self/status\"); std::string key;\n\
             int count = 0; while (file >> key) if (key == \"VmData:\") file >> count; return count; }\n\
             int main() { sem_init(&opens, 0, 0); std::vector<std::thread> threads;\n\
             for (int i = 0; i < 100; i++) threads.emplace_back([] { here.count_down(); told++; go.wait(0); });\n\
             for (int i = 0; i < 100; i++) threads.emplace_back([] { told++; is_made(); });\n\
             while (told < 200) std::this_thread::yield();\n\
             int count = kibibytes(); go = 1; go.notify_all(); sem_post(&opens);\n\
             for (auto &thread : threads) thread.join();\n\
             std::printf(\"%d\\n\", count < 300000 ? 42 : count); }\n",
        )?;
        // A library gets two threads of the program. The library joins the first thread, and
        // cancels and detaches the second.
        write(
            "joins.c",
            "#include <pthread.h>\n#include <signal.h>\nvoid *joins(pthread_t thread, pthread_t other) {\n\
             void *result; pthread_join(thread, &result); if (pthread_kill(other, 0)) return 0;\n\
             pthread_cancel(other); pthread_detach(other); return result; }\n",
        )?;
        write(
            "joined.c",
            "#include \"test.h\"\nvoid *joins(pthread_t, pthread_t);\n\
             static void *start(void *argument) { usleep(1); return argument; }\n\
             static void *stays(void *argument) { for (;;) usleep(1000); return argument; }\n\
             int main(void) { pthread_t thread, other;\n\
             pthread_create(&thread, NULL, start, (void *)42);\n\
             pthread_create(&other, NULL, stays, NULL);\n\
             printf(\"%ld\\n\", (long)joins(thread, other)); return 0; }\n",
        )
    }

    /// Writes sources with handlers and clean-up around the end of a thread.
    fn write_sources_of_ends(&self) -> Result {
        let write = |name: &str, text: &str| fs::write(self.work.join(name), text).at(name);
        // A handler that keeps the end of a thread, and two that do not.
        write(
            "keeps.cc",
            "#include <cxxabi.h>\n#include <exception>\n#include <pthread.h>\n#include <unistd.h>\n\
             extern \"C\" int cleans(); static volatile int count;\n\
             static void *start(void *argument) {\n\
             try { usleep(1); } catch (std::exception &) { count++; } catch (...) { count++; }\n\
             try { usleep(2); } catch (abi::__forced_unwind &) { throw; } catch (...) { count++; }\n\
             try { usleep(3); } catch (...) { count++; throw; }\n\
             cleans(); usleep(4); return argument; }\n\
             int main() { pthread_t thread; pthread_create(&thread, nullptr, start, nullptr);\n\
             pthread_cancel(thread); return pthread_join(thread, nullptr); }\n",
        )?;
        write(
            "cleans.c",
            "#include <unistd.h>\nstatic void clean(int *value) { write(*value, 0, 0); }\n\
             int cleans(void) { int value __attribute__((cleanup(clean))) = 1; return usleep(5); }\n",
        )
    }

    fn driver(&self, line: &str) -> Command {
        self.compiler("cc", line)
    }

    fn compiler(&self, name: &str, line: &str) -> Command {
        let mut command = Command::new(&self.command);
        command.arg(name).args(line.split(' ')).current_dir(&self.work);
        command.env("XDG_CACHE_HOME", self.work.join("cache"));
        command
    }

    fn output(&self, command: &mut Command) -> Result<Output> {
        command.output().at(self.command.display())
    }

    fn succeeds(&self, line: &str) -> Result<String> {
        self.succeeds_with(&mut self.driver(line), line)
    }

    fn succeeds_with(&self, command: &mut Command, line: &str) -> Result<String> {
        let output = self.output(command)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("`{line}` ended with {}: {stderr}", output.status).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &stderr)
    }

    /// Runs a program that was made. The program must print 42 and be converted.
    fn is_converted(&self, program: &str) -> Result {
        let output = Command::new(self.work.join(program)).output().at(program)?;
        if output.stdout != b"42\n" {
            return Err(
                format!("{program} printed {}", String::from_utf8_lossy(&output.stdout)).into()
            );
        }
        if self.succeeds(&format!("--nm {program}"))?.contains("rt_spawn") {
            return Ok(());
        }
        Err(format!("{program} was not converted").into())
    }

    fn archive(&self) -> Result {
        let _ = fs::remove_file(self.work.join("libwaits.a"));
        self.succeeds("-O2 -g -c waits.c -o waits.o")?;
        // The `ar` of the system reads the native code of the object.
        let status = Command::new("ar")
            .args(["rcs", "libwaits.a", "waits.o"])
            .current_dir(&self.work)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("ar does not read the object".into());
        }
        self.succeeds("--ranlib libwaits.a")?;
        self.succeeds("-O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong -c main.c -o main.o")?;
        self.succeeds("-pthread main.o -L. -lwaits -o archive")?;
        self.is_converted("archive")?;
        self.succeeds("-Os -pthread main.c waits.c -o at_once")?;
        self.is_converted("at_once")
    }

    /// `-x` applies to the program's files, and not to the runtime. A header is no program.
    fn language(&self) -> Result {
        for language in ["c", "c++"] {
            let line = format!("-x {language} - -pthread -o from_input");
            let source = fs::File::open(self.work.join("whole.c")).at("whole.c")?;
            self.succeeds_with(self.driver(&line).stdin(source), &line)?;
            self.is_converted("from_input")?;
        }
        self.succeeds("-x c-header test.h -o test.pch")?;
        self.succeeds("-include-pch test.pch -c waits.c -o waits.o").map(|_| ())
    }

    /// What C++ needs changes no byte of a program in C, and keeps no account of exceptions there.
    fn unchanged(&self) -> Result {
        for (name, language) in [("cc", ""), ("c++", "-x c ")] {
            for line in [
                format!("{language}-O2 -w -pthread -c cleanup.c -o by_{name}.o"),
                format!("-pthread by_{name}.o -Wl,--lto-emit-asm -o by_{name}"),
            ] {
                self.succeeds_with(&mut self.compiler(name, &line), &line)?;
            }
        }
        let read = |name: &str| fs::read(self.work.join(name)).at(name);
        if read("by_cc.o")? != read("by_c++.o")? {
            return Err("the objects differ".into());
        }
        let code = read("by_cc.lto.s")?;
        if code != read("by_c++.lto.s")? {
            return Err("the programs differ".into());
        }
        let code = String::from_utf8_lossy(&code).into_owned();
        let kept = ["rt_thrown", "rt_rethrow", "__gxx_personality", ".cfi_lsda"];
        match kept.iter().find(|what| code.contains(**what)) {
            Some(what) => Err(format!("a program in C has {what}").into()),
            None if code.contains("rt_spawn") => Ok(()),
            None => Err("the program was not converted".into()),
        }
    }

    /// The C++ compiler converts threads of C++. The C compiler names what it cannot convert.
    fn cxx(&self) -> Result {
        let cxx = |line: &str| self.succeeds_with(&mut self.compiler("c++", line), line);
        cxx("-O2 -g -pthread -c thread.cc -o thread.o")?;
        cxx("-pthread thread.o -o thread")?;
        self.is_converted("thread")?;
        cxx("-O1 -pthread -static-libstdc++ thread.cc -o own")?;
        self.is_converted("own")?;
        let printed = self.succeeds("-pthread thread.o -lstdc++ -o by_c")?;
        has(printed, &["threads of std::thread are not converted: libstdc++ starts them"])
    }

    /// Threads that wait for a variable keep no stacks. Two hundred stacks would be 1.6 GB.
    fn waits(&self) -> Result {
        let line = "-std=c++20 -O2 -pthread waits.cc -o waits";
        self.succeeds_with(&mut self.compiler("c++", line), line)?;
        self.is_converted("waits")
    }

    /// A library names threads of the program.
    fn joined(&self) -> Result {
        self.succeeds("-shared -fPIC joins.c -o libjoins.so")?;
        self.succeeds("-O1 -w -pthread joined.c -L. -ljoins -Wl,-rpath,$ORIGIN -o joined")?;
        self.is_converted("joined")
    }

    /// Linking the same inputs again does no work.
    fn again(&self) -> Result {
        let cache = self.work.join("cache");
        let _ = fs::remove_dir_all(&cache);
        fs::create_dir(&cache).at(cache.display())?;
        let link =
            |line: &str| self.succeeds_with(self.driver(line).env("XDG_CACHE_HOME", &cache), line);
        let is_known = |printed: String| printed.contains("its inputs are those of the last time");
        self.succeeds("-O2 -c main.c -o main.o")?;
        self.succeeds("-O2 -c waits.c -o waits.o")?;
        if is_known(link("main.o waits.o -o one")?) || !is_known(link("main.o waits.o -o other")?) {
            return Err("the same program is not known".into());
        }
        self.is_converted("other")?;
        self.succeeds("-O1 -g -c waits.c -o waits.o")?;
        if is_known(link("main.o waits.o -o one")?) {
            return Err("an object that has changed is not seen".into());
        }
        self.is_converted("one")
    }

    /// The link of a program prints each kind of hazard once.
    fn hazards(&self) -> Result {
        let printed = self.succeeds("-w -O1 -pthread state.c -o state")?;
        let once = |what: &str| printed.matches(what).count() == 1;
        if once("duality cc: state: 1 of 2 functions that may block converted")
            && once("state.c:3: strerror keeps its state for each kernel thread")
            && once("so in 1 more place")
            && once("threads of computes are not converted: it never blocks")
        {
            return self.other_library();
        }
        Err(printed.into())
    }

    /// Handlers that keep the end of a thread, coroutines that jump to each other, and clean-up of
    /// another language.
    fn hazards_of_cxx(&self) -> Result {
        let cxx = |line: &str| self.succeeds_with(&mut self.compiler("c++", line), line);
        self.succeeds("-O1 -g -fexceptions -c cleans.c -o cleans.o")?;
        let printed = cxx("-O1 -g -w -pthread keeps.cc cleans.o -o keeps")?;
        let keeps = "keeps.cc:7: a catch (...) would keep pthread_exit and a cancellation";
        let one =
            |what: &str| printed.matches(what).count() == 1 && !printed.contains("more place");
        if !one(keeps) || !one("cleans has clean-up for exceptions of another language than C++") {
            return Err(printed.into());
        }
        let printed = cxx("-std=c++20 -O1 -w -pthread coroutines.cc -o coroutines")?;
        let jumps = "deep(int, int&) (.resume) resumes another coroutine by a jump";
        has(printed, &[jumps])
    }

    /// A stand-in for libc++: the pass sees a name in a shared library.
    fn other_library(&self) -> Result {
        self.succeeds("-shared -fPIC libcxx.c -o libother.so")?;
        let printed = self.succeeds("-O1 -w -pthread locks.c -L. -lother -o locks")?;
        has(printed, &["locks.c:2: libc++ waits in its own library"])
    }

    /// The questions of configure and CMake to a compiler.
    fn probes(&self) -> Result {
        self.succeeds("plain.c -o plain")?;
        let line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        if !line(self.succeeds("--version")?).contains("clang")
            || !line(self.succeeds("-dumpmachine")?).contains("linux")
        {
            return Err("it does not say which compiler it is".into());
        }
        if !self.succeeds("-E waits.c")?.contains("usleep")
            || !self.succeeds("-MM waits.c")?.contains("waits.o")
        {
            return Err("it does not preprocess".into());
        }
        self.succeeds("-S waits.c -o waits.s")?;
        let doctor = self.succeeds("--doctor")?;
        if doctor.contains("missing: apt-get install clang") { Err(doctor.into()) } else { Ok(()) }
    }

    fn shared_library(&self) -> Result {
        let printed = self.succeeds("-shared -fPIC waits.c -o libshared.so")?;
        has(printed, &["libshared.so: a shared library is compiled natively"])
    }

    /// A program without threads gets no runtime. The driver refuses a static program with threads,
    /// in one line.
    fn static_program(&self) -> Result {
        self.succeeds("-static plain.c -o plain")?;
        self.succeeds("plain.c -o plain")?;
        if self.succeeds("--nm plain")?.contains("rt_spawn") {
            return Err("a program without threads has a runtime".into());
        }
        let refused = self.output(&mut self.driver("-static main.c waits.c -o refused"))?;
        let stderr = String::from_utf8_lossy(&refused.stderr);
        if !refused.status.success() && stderr.contains("it is linked with -static") {
            return Ok(());
        }
        Err(format!("a static program with threads is not refused: {stderr}").into())
    }

    fn graph(&self) -> Result {
        let printed =
            self.succeeds("--report --graph calls.dot -O1 -fno-inline main.c waits.c -o graph")?;
        let graph = fs::read_to_string(self.work.join("calls.dot")).at("calls.dot")?;
        if !graph.contains("\"waits\" -> \"usleep\"") || !self.work.join("calls.svg").exists() {
            return Err(graph.into());
        }
        has(
            printed,
            &[
                "start (main.c:3): converted",
                "graph: 2 of 4 functions that may block converted, text ",
            ],
        )
    }

    /// A line names the thread and the function, also for a file without debugging information.
    fn held(&self) -> Result {
        self.succeeds("-O2 -w -pthread holds.c -o holds")?;
        let mut command = Command::new(self.work.join("holds"));
        let printed = self.succeeds_with(command.env("DUALITY_STALL", "50"), "holds")?;
        has(printed, &[" heavy has computed for ", ", in computes (at 0x"])
    }

    /// gdb shows the calls of a converted thread while main waits for its end.
    fn stack(&self) -> Result {
        let Some(gdb) = tools::find("gdb") else {
            println!("gdb is missing: its script is not tested");
            return Ok(());
        };
        let line = "-O1 -g -gdwarf-4 -w -pthread parked.c -o parked";
        self.succeeds_with(&mut self.driver(line), line)?;
        let mut command = Command::new(gdb);
        command.args(["-nx", "-batch", "-x"]).arg(&self.script).current_dir(&self.work);
        for line in ["break marker", "run", "duality-threads"] {
            command.args(["-ex", line]);
        }
        let output = command.arg("./parked").output().at("gdb")?;
        let both = [output.stdout, output.stderr].concat();
        let shown = ["waits (parked.c:3)", "start (parked.c:4)", "1 converted threads wait"];
        has(String::from_utf8_lossy(&both).into_owned(), &shown)
    }
}

/// Checks that a compiler or a program has printed all these parts.
fn has(printed: String, parts: &[&str]) -> Result {
    if parts.iter().all(|part| printed.contains(part)) { Ok(()) } else { Err(printed.into()) }
}
