/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_next.h: the functions that pthread.c stands before, and where libkymo's own lock is. A
 * part of pthread.c; included there once, after kymo/tracepoint.h.
 */
/*
 * The two condition variables of glibc on x86: programs of this century use the second. A program
 * that was linked against the first would get the second here.
 */
#if defined(__x86_64__) || defined(__i386__)
#define COND_VERSION "GLIBC_2.3.2"
#else
#define COND_VERSION NULL
#endif

typedef const struct timespec *deadline_t;

/*
 * _(name, version, parameters with their names, the names). All return int and are called
 * pthread_NAME.
 */
#define MUTEX pthread_mutex_t *mutex
#define RWLOCK pthread_rwlock_t *rwlock
#define COND pthread_cond_t *cond
#define EACH(_)                                                                                    \
	_(mutex_lock, NULL, (MUTEX), (mutex))                                                      \
	_(mutex_unlock, NULL, (MUTEX), (mutex))                                                    \
	_(mutex_trylock, NULL, (MUTEX), (mutex))                                                   \
	_(mutex_timedlock, NULL, (MUTEX, deadline_t until), (mutex, until))                        \
	_(mutex_clocklock, NULL, (MUTEX, clockid_t clock, deadline_t until), (mutex, clock, until)) \
	_(rwlock_rdlock, NULL, (RWLOCK), (rwlock))                                                 \
	_(rwlock_wrlock, NULL, (RWLOCK), (rwlock))                                                 \
	_(rwlock_unlock, NULL, (RWLOCK), (rwlock))                                                 \
	_(rwlock_tryrdlock, NULL, (RWLOCK), (rwlock))                                              \
	_(rwlock_trywrlock, NULL, (RWLOCK), (rwlock))                                              \
	_(rwlock_timedrdlock, NULL, (RWLOCK, deadline_t until), (rwlock, until))                   \
	_(rwlock_timedwrlock, NULL, (RWLOCK, deadline_t until), (rwlock, until))                   \
	_(rwlock_clockrdlock, NULL, (RWLOCK, clockid_t clock, deadline_t until),                   \
	  (rwlock, clock, until))                                                                  \
	_(rwlock_clockwrlock, NULL, (RWLOCK, clockid_t clock, deadline_t until),                   \
	  (rwlock, clock, until))                                                                  \
	_(cond_wait, COND_VERSION, (COND, MUTEX), (cond, mutex))                                   \
	_(cond_timedwait, COND_VERSION, (COND, MUTEX, deadline_t until), (cond, mutex, until))     \
	_(cond_clockwait, NULL, (COND, MUTEX, clockid_t clock, deadline_t until),                  \
	  (cond, mutex, clock, until))                                                             \
	_(cond_signal, COND_VERSION, (COND), (cond))                                               \
	_(cond_broadcast, COND_VERSION, (COND), (cond))

/* From glibc 2.30 on; declared here so that older headers do. */
int pthread_mutex_clocklock(MUTEX, clockid_t clock, deadline_t until);
int pthread_rwlock_clockrdlock(RWLOCK, clockid_t clock, deadline_t until);
int pthread_rwlock_clockwrlock(RWLOCK, clockid_t clock, deadline_t until);
int pthread_cond_clockwait(COND, MUTEX, clockid_t clock, deadline_t until);

#define MEMBER(name, version, parameters, names) int(*name) parameters;
struct functions {
	EACH(MEMBER)
};

/*
 * bare_NAME: what a call does while its next function is not known: nothing. Only calls that dlsym
 * makes come here.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define BARE(name, version, parameters, names)                                                     \
	static int bare_##name parameters                                                          \
	{                                                                                          \
		return 0;                                                                          \
	}
EACH(BARE)
#pragma GCC diagnostic pop

#define DECLARE_FIRST(name, version, parameters, names) static int first_##name parameters;
EACH(DECLARE_FIRST)

#define FIRST(name, version, parameters, names) .name = first_##name,
static struct functions next = { EACH(FIRST) };
/* Set while this thread looks the next functions up. */
PER_THREAD bool looking_up;
/* Where libkymo is: its own lock is not the program's. */
static uint64_t kymo_begin, kymo_end;

/* Called for each object. An executable that has libkymo inside is not libkymo. */
static int find_kymo(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	uint64_t wanted = ADDRESS(kymo__register), first = UINT64_MAX, last = 0;

	(void)bytes;
	(void)unused;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;

		if (part->p_type != PT_LOAD)
			continue;
		first = begin < first ? begin : first;
		last = end > last ? end : last;
	}
	if (wanted < first || wanted >= last)
		return 0;
	if (info->dlpi_name && *info->dlpi_name) {
		kymo_begin = first;
		kymo_end = last;
	}
	return 1;
}

/*
 * look_up: finds all next functions. Threads may do so at the same time and none waits for another:
 * one of them may hold the loader's lock, which dlsym takes. Each function is put in its place as
 * soon as it is found. The first call in a process is libkymo's own, before it has a thread.
 * Returns false when this thread is in the middle of it.
 */
static bool look_up(void)
{
	int saved_errno = errno;
	struct functions found;

	if (looking_up)
		return false;
	looking_up = true;
#define LOOK_UP(name, version, parameters, names)                                                  \
	NEXT_LOOK_UP(found, name, "pthread_" #name, version);                                      \
	NEXT_PUBLISH(next, found, name);
	EACH(LOOK_UP)
	dl_iterate_phdr(find_kymo, NULL);
	looking_up = false;
	errno = saved_errno;
	return true;
}

/* first_NAME: the first call of all. */
#define FIRST_CALL(name, version, parameters, names)                                               \
	static int first_##name parameters                                                         \
	{                                                                                          \
		return (look_up() ? next.name : bare_##name)names;                                 \
	}
EACH(FIRST_CALL)

/* Where KYMO_DISABLE is set, libkymo makes no call: before main at the latest. */
static void __attribute__((constructor(102))) look_up_early(void)
{
	if (__atomic_load_n(&next.mutex_lock, __ATOMIC_RELAXED) == first_mutex_lock)
		look_up();
}
