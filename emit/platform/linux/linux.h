/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * linux.h: what the files of this platform share. self.c knows the process: page, names; attach.c
 * maps streams, memory.c makes them; process.c stands above: start, fork, exit. All meet in the directory of dir.c.
 */
#ifndef KYMO_POSIX_LINUX_H
#define KYMO_POSIX_LINUX_H

#include <sys/types.h>

#include "../../posix/internal.h"

#pragma GCC visibility push(hidden)

/* clock.c */
void kymop_clock_init(void);

/* dir.c: files by kind ('p' page, 'n' names, 's' stream) and number. fd, or -1 and errno. */
#define KYMOP_PATH_BYTES 192
void kymop_dir_init(void);
bool kymop_dir_make(void);
uint32_t kymop_dir_owner(void);
void kymop_path(char *path, char kind, uint32_t number);
int kymop_dir_open(char kind, uint32_t number, int flags);
void kymop_dir_unlink(char kind, uint32_t number);
int kymop_dir_lock(void);
void kymop_dir_sweep(void);
void *kymop_map(int fd, size_t bytes, void *at);

/* self.c */
extern struct kymop_names *kymop_process_names;
extern intptr_t kymop_thread_offset;
/* Of the streams that this process controls: the descriptor of the file, and 1; 0: not ours. */
extern int kymop_own_files[KYMO_POSIX_STREAMS];
static inline int kymop_own_file(uint32_t slot)
{
	return kymop_own_files[slot] - 1;
}
uint64_t kymop_process_start(pid_t pid);
int kymop_names_map(pid_t pid, uint64_t start, struct kymop_names **names);
uint64_t kymop_own_start(void);
void kymop_self_begin(void);
void kymop_self_init(void);

/* file.c: from now on nobody waits long for a pipe. */
void kymop_file_hurry(void);

/*
 * layout.c. Control blocks of one stream do not stand where those of another do within their pages:
 * a load would wait for a store to the other, of which it knows the low bits only.
 */
#define KYMOP_SKEW_BYTES 256u
#define KYMOP_CPUS_MAX 4096u
size_t kymop_control_bytes(uint32_t lane_count);
bool kymop_is_sane(const struct kymop_shared *header, off_t file_bytes);

/* memory.c */
void kymop_memory_after_fork(void);
void kymop_join_own_streams(void);
bool kymop_stream_is_inherited(uint32_t slot);

#if KYMOP_KERNEL
/* kernel.c. Threads of the library are not recorded; in a new child nothing of the kernel is ours. */
void kymop_kernel_hide(uint32_t thread, bool is_hidden);
void kymop_kernel_after_fork(void);
#endif

/* attach.c; what the controller calls, between begin and end. */
extern intptr_t kymop_rseq_offset;
void kymop_attach_init(void);
bool kymop_attach_begin(void);
void kymop_attach_end(bool has_begun);
const struct kymop_view *kymop_current_view(uint32_t slot);
bool kymop_map_own(uint32_t slot, int fd, uint32_t generation, struct kymop_view *view);
bool kymop_join(uint32_t slot, int fd, const struct kymop_view *view);
void kymop_unmap_own(uint32_t slot, const struct kymop_view *view);
bool kymop_attach_stream(uint32_t slot, struct kymop_view *view);
void kymop_attach_after_fork(uint32_t kept);

#pragma GCC visibility pop

#endif
