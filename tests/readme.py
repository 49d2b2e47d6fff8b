#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the commands of README.md and of pages in docs/, as a new user would type them: every line that begins with four spaces, a dollar
sign and a space. They run in the order of PAGES against an installation of its own. RULES change what a test cannot do: durations become a
second, and what waits for a user ends by itself. A command without a rule runs as it is written; NOT_RUN are those that no rule can help,
with the reason. A line that looks like a command and has no dollar sign fails.
Usage: readme.py [--list] (KYMO: the command to install). Last line: N passed, N failed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIME_LIMIT_S = 120
# In this order, because later commands read what earlier ones recorded. In a folder with the user's program, or in the source tree.
PAGES = {
    "README.md": "work", "docs/read.md": "work", "docs/record.md": "work", "docs/flight-recorder.md": "work", "docs/laboratory.md": "work",
    "docs/tracepoint.md": "work", "docs/posix.md": "tree", "docs/target.md": "tree", "docs/cross.md": "tree", "docs/python.md": "tree",
}
# Not among them: sql.md and the code of python.md (tests/python.sh runs both), extending.md (its commands are parts of make test), security.md
# and promises.md (no commands), containers.md (it says what to mount, and tests/tests/containers.rs does that without an engine).

# Commands that are not run, and why.
NOT_RUN = [
    (r"^make test$", "this script is a part of it"),
    (r"^make demo$", "it may build and install; tests/fresh_root.sh runs it in an empty Debian (make stress)"),
    (r"^apt-get install ", "scripts/deps.sh installs what the tests need"),
    (r"^make menuconfig$", "it waits for a user, and needs kconfiglib"),
    (r"^make -C emit posix CONFIG=emit/posix/.config$", "make menuconfig writes this file"),
    (r"^emit/tests/aarch64.sh$", "it boots a machine for minutes, and is a part of make test by itself"),
    (r"^(make python|pip install .*)$", "tests/python.sh builds and installs the wheel (make stress)"),
]
LOOKS_LIKE_COMMAND = r"^    (sudo|make|kymo|cc|apt-get|pip|[a-z0-9]+-linux-gnu-gcc|emit/\S+\.sh|\./\w+)( |$)"

# The rest of the program whose first lines are the snippet of the README. The later commands need what it does: spans of requests, a lock
# that two threads want, and a few seconds of both.
PROGRAM_END = r"""
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

KYMO_EVENT(req, begin, (u32, id))
KYMO_EVENT(req, end, (u32, id))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *other(void *unused)
{
	for (int i = 0; i < 40; i++) {
		pthread_mutex_lock(&lock);
		usleep(5000);
		pthread_mutex_unlock(&lock);
		usleep(2000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 300;
	pthread_t thread;

	pthread_create(&thread, NULL, other, NULL);
	for (int i = 0; i < rounds; i++) {
		unsigned axis = i % 3;
		double position = i / 2.0;

		kymo_trace(req, begin, i);
@TRACE@
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		kymo_trace(req, end, i);
		usleep(7000);
	}
	pthread_join(thread, NULL);
	return 0;
}
"""

# A pattern of a command, what it becomes, and which exit statuses besides 0 are right: 130 is Ctrl-C, 1 of a comparison means that there
# is a difference. The first pattern that fits decides.
RULES = [
    (r"^kymo doctor$", r"\g<0>", {1}),
    (r"^kymo doctor --pid 1234$", "kymo doctor --pid $$", {1}),
    (r"^kymo shield 2-3 -- ./control$", "kymo shield 1 -- ./program 1"),
    (r"^kymo collect --source /dev/ttyUSB0 --baud 115200 -o t$", "kymo collect --source @FOLDER@/line -o t"),
    (r"^kymo read --follow t$", "timeout --preserve-status -s INT 2 kymo read --follow t", {130}),
    (r"^make -C examples/target run DIR=t$", "make -s -C examples/target run DIR=@FOLDER@/tree/t"),
    # The program of the page writes a log.
    (r"^cc prog.c .*$", r"\g<0> && ./a.out my.log"),
    (r"^make -C emit (.*)/tmp/(.*)$", r"make -s -C emit \1@FOLDER@/\2"),
    (r"^(.*-linux-gnu-gcc .*)/tmp/(.*)$", r"\1@FOLDER@/\2"),
    (r"^sudo make install$", "make -s -C @REPOSITORY@ install PREFIX=@PREFIX@"),
    (r"^cc program.c -lkymo -o program$",
     "cc program.c -I@PREFIX@/include -L@PREFIX@/lib -Wl,-rpath,@PREFIX@/lib -lkymo -pthread -o program"),
    (r"^kymo read --follow motor$", "timeout --preserve-status -s INT 2 kymo read --follow motor", {130}),
    (r"^kymo session start motor (.*) -o trace$", r"kymo session start motor \1 -o trace-of-motor"),
    (r"^kymo wakeup -c 1 -d 60s$", "kymo wakeup -c 1 -d 1s -o night.json"),
    (r"^kymo npt -c 1$", "kymo npt -c 1 -d 1s"),
    (r"^kymo slots (.*) -- exec 'cyclictest ...'$",
     r"kymo slots --duration 500ms --rounds 5 \1 -- exec 'cyclictest -q -m -a $KYMO_CPU -t 1 -p 80 -i 1000 -D $KYMO_SECONDS -h 100000'", {1}),
    (r"^kymo load (.*) -d 5m$", r"kymo load \1 -d 1s"),
    (r"^kymo eval -d 1h (.*)$", r"kymo eval -d 10s --rounds 1 \1"),
    # 3: not enough data, where a busy machine lost samples.
    (r"^kymo compare .*$", r"\g<0>", {1, 3}),
    (r"^kymo maxrate (.*)$", r"kymo maxrate -d 200ms \1"),
    (r"^kymo preempt; kymo pi$", "kymo preempt -d 1s && kymo pi -d 1s"),
    (r"^(.*) -d 60s(.*)$", r"\1 -d 1s\2"),
]


def commands(text):
    """The commands of a page, without their remarks, and lines that were to be such."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    $ ") or re.search(LOOKS_LIKE_COMMAND, line):
            yield number, re.sub(r"\s+# .*$", "", line[6:]).strip() if line.startswith("    $ ") else line


def snippet(text):
    """The first block of C, made a program: the lines for file scope, and the tracepoint in the loop."""
    lines = []
    for line in text[text.index("    #include"):].splitlines():
        if line.startswith("    $ ") or line and not line.startswith("    "):
            break
        lines.append(line[4:])
    head = [line for line in lines if not line.startswith("kymo_trace(")]
    trace = ["\t\t" + line for line in lines if line.startswith("kymo_trace(")]
    return "\n".join(head) + PROGRAM_END.replace("@TRACE@", "\n".join(trace))


def prepare(folder, text):
    """The folders in which commands run: `work` has the program of the README, `tree` is the source tree with the page's programs."""
    for name in ("work", "tree", "stubs"):
        os.mkdir(f"{folder}/{name}")
    with open(f"{folder}/work/program.c", "w", encoding="utf-8") as file:
        file.write(snippet(text))
    with open(f"{folder}/stubs/sudo", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nexec "$@"\n')
    os.chmod(f"{folder}/stubs/sudo", 0o755)
    shutil.copy(f"{REPOSITORY}/host/kymo-ftrace/tests/reports/irqsoff_6_12_rt_of_a_module.txt", f"{folder}/work/irqsoff.txt")
    for name in ("emit", "build", "examples"):
        os.symlink(f"{REPOSITORY}/{name}", f"{folder}/tree/{name}")
    shutil.copy(f"{folder}/work/program.c", f"{folder}/tree/program.c")
    shutil.copy(f"{REPOSITORY}/examples/posix/log.c", f"{folder}/tree/prog.c")
    # What a board sends over its line.
    subprocess.run(["make", "-s", "-C", f"{REPOSITORY}/examples/target", "run", f"KYMO=cat >{folder}/line; true"], check=True,
                   capture_output=True)


def results(work, environment):
    """The two groups of results that `kymo compare` is given."""
    for group in ("before", "after"):
        os.makedirs(f"{work}/{group}", exist_ok=True)
        for number in range(5):
            path = f"{work}/{group}/{number}.json"
            done = subprocess.run(["kymo", "wakeup", "-c", "1", "-d", "300ms", "-o", path], cwd=work, env=environment, capture_output=True,
                                  check=False)
            if done.returncode:
                sys.exit(f"kymo wakeup: {done.stderr.decode()}")


def adapted(command, folder):
    """The command as it is run, and the exit statuses that are right."""
    allowed = set()
    for pattern, to, *statuses in RULES:
        if re.search(pattern, command):
            command = re.sub(pattern, to, command)
            allowed = statuses[0] if statuses else set()
            break
    for name, value in {"@PREFIX@": f"{folder}/kymo", "@FOLDER@": folder, "@REPOSITORY@": REPOSITORY}.items():
        command = command.replace(name, value)
    return command, allowed | {0}


def reason_not_to_run(command):
    """Why a command is not run; nothing where it is."""
    return next((reason for pattern, reason in NOT_RUN if re.search(pattern, command)), None)


def too_busy(command, status, output):
    """Whether kymo says that the machine is too busy for a measurement: then its command was right, and says nothing else."""
    return command.startswith("kymo maxrate") and status == 1 and b"too busy" in output


def run(command, work, environment):
    with subprocess.Popen(["sh", "-c", command], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "did not end", process.communicate()[0]
    return process.returncode, output


def main():
    texts = {}
    for page in PAGES:
        with open(f"{REPOSITORY}/{page}", encoding="utf-8") as file:
            texts[page] = file.read()
    found = [(f"{page}:{number}", PAGES[page], command) for page, text in texts.items() for number, command in commands(text)]
    if "--list" in sys.argv:
        for place, _, command in found:
            reason = reason_not_to_run(command)
            print(f"{place}: {command}\n\t" + (f"not run: {reason}" if reason else adapted(command, "FOLDER")[0]))
        return 0
    if os.geteuid() != 0 or (os.cpu_count() or 1) < 2:
        print("SKIP commands of the README: they need root, and CPU 1")
        print("0 passed, 0 failed")
        return 0
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="kymo-readme-") as folder:
        prepare(folder, texts["README.md"])
        environment = {**os.environ, "KYMO_RUNTIME_DIR": f"{folder}/run",
                       "PATH": f"{folder}/stubs:{folder}/kymo/bin:{os.environ['PATH']}"}
        environment.pop("KYMO", None)
        for place, where, command in found:
            if reason_not_to_run(command):
                continue
            work = f"{folder}/{where}"
            if command.startswith("kymo compare"):
                results(work, environment)
            # Several commands write the same trace. A user would remove it, or kymo would ask for that.
            if again := re.search(r"(?:record|collect) .*-o (trace|t)( |$)|run DIR=(t)$", command):
                shutil.rmtree(f"{work}/{again[1] or again[3]}", ignore_errors=True)
            line, allowed = adapted(command, folder)
            status, output = ("none: a command without a dollar sign", b"") if command.startswith(" ") else run(line, work, environment)
            if status in allowed:
                passed += 1
                continue
            if too_busy(command, status, output):
                print(f"SKIP {place}: {command}: the machine was too busy for it")
                continue
            failed += 1
            print(f"FAILED {place}: {command}\n(as: {line})\nexit status {status}\n"
                  f"{output.decode(errors='replace')[-3000:]}")
        subprocess.run(["kymo", "session", "stop", "motor"], cwd=folder, env=environment, capture_output=True, check=False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
