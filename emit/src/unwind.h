/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * unwind.h: tables of where a caller's frame is [context.md 4]. eh_frame.c makes the rows of one file,
 * unwind.c keeps those of all loaded files up to date, callstack.c reads them on the record path.
 *
 * Memory that the record path may read is never unmapped, and no count leads out of it: a reader that
 * is late reads rows of another file, and sees by kymo_unwind_generation that it did.
 */
#ifndef KYMO_UNWIND_H
#define KYMO_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What finds the caller of the code behind a row's address. */
enum kymo_rule {
	KYMO_RULE_NONE,	     /* the file says nothing of this code */
	KYMO_RULE_STOP,	     /* what it says cannot be expressed here */
	KYMO_RULE_END,	     /* it has no caller */
	KYMO_RULE_SP,	     /* CFA = stack pointer + offset */
	KYMO_RULE_FP,	     /* CFA = frame pointer + offset */
	KYMO_RULE_REALIGNED, /* CFA is at frame pointer - offset, the caller's frame pointer at frame pointer */
	KYMO_RULE_SIGNAL,    /* at the stack pointer is the kernel's ucontext of what was interrupted */
};

/*
 * A rule in 32 bits: the kind in 3; where the caller's frame pointer is in 13, in words below the CFA;
 * the offset in 16, in words. The return address is in the word below the CFA.
 */
#define KYMO_RULE_KIND(rule) ((enum kymo_rule)((rule) & 7))
#define KYMO_RULE_SAVED(rule) ((rule) >> 3 & 0x1fff)
#define KYMO_RULE_OFFSET(rule) ((uintptr_t)((rule) >> 16) * 8)
#define KYMO_RULE_WORDS_MAX 0xffffu
#define KYMO_SAVED_NOT 0u	/* the register still has it */
#define KYMO_SAVED_LOST 0x1fffu /* it cannot be found */
#define KYMO_RULE_MAKE(kind, saved, words) ((uint32_t)(kind) | (uint32_t)(saved) << 3 | (uint32_t)(words) << 16)

/* The rule of addresses from at on, in bytes behind the file's first code. Sorted. */
struct kymo_unwind_row {
	uint32_t at, rule;
};

/* Rows of one file. Mapped once and for ever; capacity does not change. */
struct kymo_unwind_block {
	struct kymo_unwind_block *next; /* unwind.c's */
	size_t bytes;
	uint32_t capacity;
	struct kymo_unwind_row rows[];
};

/* A loaded file. */
struct kymo_unwind_file {
	uintptr_t begin, end;  /* of its code */
	uintptr_t search_table; /* .eh_frame_hdr, by which the loader knows the file, too; 0: none */
	const struct kymo_unwind_block *block; /* null: no table could be made */
	uint32_t count; /* rows */
	bool is_first;	/* it was there when the program began, and stays */
};

#define KYMO_UNWIND_FILES_MAX 1024u

/* All of them, sorted by their code. */
struct kymo_unwind_set {
	uint64_t loaded; /* the loader's count of files that were loaded, when it listed these */
	uint32_t count;
	struct kymo_unwind_file files[KYMO_UNWIND_FILES_MAX];
};

/* eh_frame.c */

/* Copies bytes of the process. Returns false where they cannot be read. */
typedef bool kymo_unwind_read(void *of, uintptr_t at, void *to, size_t bytes);

#define KYMO_EH_ENTRY_MAX 16384u /* a function's entry, bytes */
#define KYMO_EH_CIES 4u

/* Where a register's value for the caller is. */
struct kymo_eh_place {
	enum { KYMO_EH_SAME, KYMO_EH_UNDEFINED, KYMO_EH_AT_CFA, KYMO_EH_AT_SP, KYMO_EH_AT_FP, KYMO_EH_OTHER } kind;
	int64_t offset;
};

/* What holds at an address. */
struct kymo_eh_state {
	enum { KYMO_EH_CFA_REGISTER, KYMO_EH_CFA_AT_SP, KYMO_EH_CFA_AT_FP, KYMO_EH_CFA_OTHER } cfa;
	uint64_t cfa_register;
	int64_t cfa_offset;
	struct kymo_eh_place fp, ra;
};

/* What several functions' entries share. */
struct kymo_eh_cie {
	uintptr_t at; /* 0: none */
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool is_usable, has_length, is_signal;
	struct kymo_eh_state state;
};

/* One file's rows under construction. */
struct kymo_eh {
	kymo_unwind_read *read;
	void *of;
	uintptr_t begin, end, search_table;
	uint32_t entry, entry_count; /* of the search table: the next one, all */
	uint64_t done; /* code up to here has its rows */
	struct kymo_unwind_row *rows;
	uint32_t count, capacity;
	bool is_full; /* in the middle of an entry */
	uint32_t next_cie;
	struct kymo_eh_cie cies[KYMO_EH_CIES];
	uint8_t bytes[KYMO_EH_ENTRY_MAX];
};

enum kymo_eh_progress { KYMO_EH_DONE, KYMO_EH_MORE, KYMO_EH_FULL };

bool kymo_eh_begin(struct kymo_eh *eh, size_t search_table_bytes);
enum kymo_eh_progress kymo_eh_continue(struct kymo_eh *eh, uint32_t entries);

/* loader.c */
void kymo_loader_begin(void);
uint32_t kymo_loader_first_files(void);
void kymo_loader_learn(uint64_t count);
bool kymo_loader_is_unchanged(uint64_t count);
bool kymo_loader_find(uintptr_t pc, uintptr_t *search_table);

/* callstack.c */
extern const struct kymo_unwind_set *kymo_unwind_set; /* null: there are no tables yet */
extern uint64_t kymo_unwind_generation; /* grows before memory that was in a set is written to */

/* unwind.c */
void kymo_unwind_begin(void);
void kymo_unwind_prepare(int64_t most_ns);
int kymo_unwind_serve(void);
void kymo_unwind_after_fork(void);

#endif
