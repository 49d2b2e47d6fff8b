/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * threads.c: victim: 1,000 threads that allocate and lock, most of them alive at once, with keys whose destructors
 * free, errors of dlerror, blocks that another thread frees, and a timer signal all the while.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"

#define THREADS 1000
#define BLOCKS 64

static pthread_key_t key;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t handlers_own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int arrived;
static long total;
static void *handed[THREADS];

/* Takes part in what it interrupts: a record inside a record. */
static void handler(int signal)
{
	(void)signal;
	if (!pthread_mutex_trylock(&handlers_own))
		pthread_mutex_unlock(&handlers_own);
}

static void *thread(void *number)
{
	long self = (long)number;
	char *block[BLOCKS];

	pthread_setspecific(key, strdup("freed by the key's destructor"));
	CHECK(!dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") && dlerror());
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			block[i] = malloc((size_t)(i * 97 + self) % 5000 + 1);
			CHECK(block[i]);
			block[i][0] = (char)i;
		}
		for (int i = 0; i < BLOCKS; i++) {
			CHECK(block[i][0] == (char)i);
			free(block[i]);
		}
		pthread_mutex_lock(&mutex);
		total++;
		pthread_mutex_unlock(&mutex);
	}
	pthread_mutex_lock(&mutex);
	handed[self] = malloc(100);
	if (++arrived % 250 == 0)
		pthread_cond_broadcast(&changed);
	while (arrived < ((int)self / 250 + 1) * 250)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	free(handed[(self + 1) % 250 + self / 250 * 250]);
	return NULL;
}

int main(void)
{
	const struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	CHECK(!pthread_key_create(&key, free));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], &attr, thread, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(total == 10 * THREADS);
	puts("fine");
	return 0;
}
