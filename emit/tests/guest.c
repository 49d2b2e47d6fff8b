/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * guest.c: the first program of the virtual machine of aarch64.sh. Runs what /commands says, a line each:
 * seconds it may take, names and values of its environment, a program, and arguments. Around what a command
 * prints stand two lines of ours, with its number, status and time. Then the machine goes off.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 32

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int mount_at(const char *type, const char *folder)
{
	mkdir(folder, 0755);
	return mount(type, folder, type, 0, NULL);
}

static _Noreturn void execute(char *line)
{
	char *words[WORDS_MAX + 1] = { NULL };
	int count = 0;

	for (char *word = strtok(line, " "); word && count < WORDS_MAX; word = strtok(NULL, " ")) {
		if (!count && strchr(word, '='))
			putenv(word);
		else
			words[count++] = word;
	}
	if (count)
		execv(words[0], words);
	perror(count ? words[0] : "no program");
	_exit(127);
}

/* Returns the status as a shell has it; 124 where the time is over. */
static int run(char *line, double seconds)
{
	double end = now_s() + seconds;
	pid_t child = fork();
	int status;

	if (!child)
		execute(line);
	while (!waitpid(child, &status, WNOHANG)) {
		usleep(5000);
		if (now_s() < end)
			continue;
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		return 124;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
	static char line[1024];
	int console, number = 0;
	FILE *commands;

	if (mount_at("proc", "/proc") || mount_at("sysfs", "/sys") || mount_at("devtmpfs", "/dev") ||
	    mount_at("tmpfs", "/tmp"))
		perror("mount");
	console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	setenv("HOME", "/tmp", 1);
	commands = fopen("/commands", "re");
	while (commands && fgets(line, sizeof(line), commands)) {
		char *rest;
		double begin = now_s(), seconds = strtod(line, &rest);
		int status;

		line[strcspn(line, "\n")] = 0;
		printf("== %d\n", number);
		fflush(stdout);
		status = run(rest, seconds);
		printf("-- %d %d %.1f\n", number++, status, now_s() - begin);
		fflush(stdout);
	}
	printf("== end\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
