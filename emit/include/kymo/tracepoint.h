/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tracepoint.h: the public header of kymo.
 *
 *	#include <kymo/tracepoint.h>
 *	KYMO_EVENT(motor, step, (u32, axis), (f64, position), (str, state))
 *	...
 *	kymo_trace(motor, step, axis, position, state);
 *
 * Link with -lkymo. Disabled, a tracepoint is one load and one branch. Enabled, it is one clock
 * read and stores, from any context, signal handlers included: no system call, no lock, no
 * allocation. Field types: event.md section 1.
 */
#ifndef KYMO_TRACEPOINT_H
#define KYMO_TRACEPOINT_H

#include <stdint.h>

#if UINTPTR_MAX < UINT64_MAX
#error "kymo: tracepoints need a processor with 64-bit pointers; this program is compiled for 32 bits"
/* So that this is the only message. */
#define KYMO_ENUM(...)
#define KYMO_EVENT(...)
#define kymo_trace(...) ((void)0)
#define kymo_trace_enabled(...) 0
#else

#include "event.h"
#include "foreach.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__has_attribute)
#if __has_attribute(retain)
#define KYMO__KEEP __attribute__((used, retain))
#endif
#endif
#ifndef KYMO__KEEP
#define KYMO__KEEP __attribute__((used))
#endif

/* C++ would compute a label's value at run time; the section must hold it. */
#ifdef __cplusplus
#define KYMO__CONSTANT constexpr
#else
#define KYMO__CONSTANT const
#endif

/*
 * kymo_thread_init: does now what the first record of the calling thread would do (reads the thread
 * id; portable ring: claims a lane). A real-time thread calls it before its loop.
 * Context: not in signal handlers; system calls.
 */
void kymo_thread_init(void);

/* kymo_version: "MAJOR.MINOR.PATCH" of the library that is in use. */
const char *kymo_version(void);

/*
 * The linker makes these the bounds of the sections of this object; absent where it has no events.
 */
extern struct kymo_event __start_kymo_state[] KYMO__WEAK;
extern struct kymo_event __stop_kymo_state[] KYMO__WEAK;
extern const uint8_t __start_kymo_events[] KYMO__WEAK;
extern const uint8_t __stop_kymo_events[] KYMO__WEAK;

/* Runs once for each source file; only the first one of an object finds work. */
static void __attribute__((constructor(101), unused)) KYMO__UNSEEN kymo__construct(void)
{
	if (kymo__module.abi || &__start_kymo_state[0] == &__stop_kymo_state[0])
		return;
	kymo__module.abi = KYMO_ABI_VERSION;
	kymo__module.events = __start_kymo_state;
	kymo__module.events_end = __stop_kymo_state;
	kymo__module.descs = __start_kymo_events;
	kymo__module.descs_end = __stop_kymo_events;
	kymo__register(&kymo__module);
}

static void __attribute__((destructor(101), unused)) KYMO__UNSEEN kymo__destruct(void)
{
	if (!kymo__module.abi)
		return;
	kymo__unregister(&kymo__module);
	kymo__module.abi = 0;
}

/*
 * KYMO_ENUM(provider, name, type, (label, value)...): labels for an integer type of event.md 1.
 * Values are constant expressions. At most 32 labels, identifiers.
 */
#define KYMO_ENUM(...) KYMO__ENUM(__VA_ARGS__, KYMO__END)

/*
 * KYMO_EVENT(provider, name, (type, field)...): declares an event, at file scope, once in each
 * source file that uses it (in a header, say). At most 32 fields. Names are C identifiers.
 */
#define KYMO_EVENT(...) KYMO__EVENT(__VA_ARGS__, KYMO__END)

/*
 * kymo_trace(provider, name, arguments...): records one event. Arguments are evaluated only when a
 * session wants it.
 * Context: any. Types are checked as for a function call.
 */
#define kymo_trace(...) KYMO__TRACE(__VA_ARGS__, 0)

/*
 * kymo_trace_enabled(provider, name): whether a session wants the event now; for arguments that are
 * dear to prepare.
 */
#define kymo_trace_enabled(provider, name)                                                         \
	KYMO__UNLIKELY(kymo__wanted(&kymo__event_##provider##_##name) != 0)

#define KYMO__TRACE(provider, name, ...)                                                           \
	do {                                                                                       \
		const struct kymo_slot *kymo__slot =                                               \
			kymo__wanted(&kymo__event_##provider##_##name);                            \
		if (KYMO__UNLIKELY(kymo__slot != 0))                                               \
			kymo__write_##provider##_##name(kymo__slot, __VA_ARGS__);                  \
	} while (0)

/* An enumeration's type is a row of event.h that ends in KYMO__INTEGER. */
#define KYMO__ENUM(provider, name, T, ...)                                                         \
	KYMO__ENUM_1(provider, name, #T, (__VA_ARGS__), KYMO__T_##T, 0, 0, 0)
#define KYMO__ENUM_1(...) KYMO__ENUM_2(__VA_ARGS__)
#define KYMO__ENUM_2(provider, name, written, labels, class_, T, kind, ...)                           \
	KYMO__ENUM_OF_##kind(provider, name, T, written, KYMO__UNPAREN labels)
#define KYMO__ENUM_OF_0(provider, name, T, written, ...)                                             \
	KYMO_STATIC_ASSERT(0, "kymo: an enumeration of type " written "; write an integer type, such " \
			      "as u8 or i32 (event.md 1)");                                        \
	typedef int kymo__enum_##provider##_##name;                                                \
	enum { kymo__enumcode_##provider##_##name = KYMO_T_I32 };
#define KYMO__ENUM_OF_KYMO__INTEGER(provider, name, T, written, ...)                               \
	typedef KYMO__C_##T kymo__enum_##provider##_##name;                                        \
	enum { kymo__enumcode_##provider##_##name = KYMO__CODE_##T };                              \
	static KYMO__CONSTANT struct {                                                             \
		struct kymo_desc head;                                                             \
		int64_t values[KYMO__COUNT(__VA_ARGS__)];                                          \
		char text[sizeof(KYMO__ENUM_TEXT(provider, name, __VA_ARGS__))];                   \
	} kymo__enumdesc_##provider##_##name KYMO__KEEP                                            \
		__attribute__((section("kymo_events"), aligned(8))) = {                            \
			{ KYMO_DESC_MAGIC,                                                         \
			  (uint32_t)(sizeof(struct kymo_desc) + 8 * KYMO__COUNT(__VA_ARGS__) +     \
				     sizeof(KYMO__ENUM_TEXT(provider, name, __VA_ARGS__))),        \
			  KYMO_DESC_ENUM, KYMO__COUNT(__VA_ARGS__) - 1, __LINE__,                  \
			  (uint16_t)sizeof(KYMO__ENUM_TEXT(provider, name, __VA_ARGS__)),          \
			  KYMO__CODE_##T, { 0, 0, 0, 0, 0 } },                                     \
			{ KYMO__EACH(KYMO__LABEL, VALUE, __VA_ARGS__) 0 },                         \
			KYMO__ENUM_TEXT(provider, name, __VA_ARGS__)                               \
		};

#define KYMO__ENUM_TEXT(provider, name, ...)                                                       \
	#provider "\0" #name "\0" __FILE__ KYMO__EACH(KYMO__LABEL, LABEL, __VA_ARGS__)
#define KYMO__LABEL(op, label) KYMO__LABEL_1(op, KYMO__UNPAREN label)
#define KYMO__LABEL_1(op, ...) KYMO__LABEL_2(op, __VA_ARGS__)
#define KYMO__LABEL_2(op, label, value) KYMO__LABEL_##op(label, value)
#define KYMO__LABEL_VALUE(label, value) (int64_t)(value),
#define KYMO__LABEL_LABEL(label, value) "\0" #label

#define KYMO__FIELDS(op, ...) KYMO__EACH(KYMO__FIELD, op, __VA_ARGS__)
#define KYMO__EVENT_TEXT(provider, name, ...)                                                      \
	#provider "\0" #name "\0" __FILE__ KYMO__FIELDS(TEXT, __VA_ARGS__)
/* Bytes of all fixed parts; number of parts whose length varies. */
#define KYMO__FIXED_BYTES(...) (0 KYMO__FIELDS(FIXED, __VA_ARGS__))
#define KYMO__PIECE_COUNT(...) (0 KYMO__FIELDS(PIECES, __VA_ARGS__))

/*
 * An event that is wrong is one static assertion, and what its tracepoints name, so that no further
 * message hides it.
 */
#define KYMO__EVENT(provider, name, ...)                                                           \
	KYMO__EVENT_1(KYMO__FITS(__VA_ARGS__), provider, name, __VA_ARGS__)
#define KYMO__EVENT_1(verdict, ...) KYMO__EVENT_2(verdict, __VA_ARGS__)
#define KYMO__EVENT_2(verdict, ...) KYMO__EVENT_##verdict(__VA_ARGS__)
#define KYMO__EVENT_FEW(provider, name, ...)                                                       \
	KYMO__EVENT_3(KYMO__ARE_RIGHT(__VA_ARGS__), provider, name, __VA_ARGS__)
#define KYMO__EVENT_3(verdict, ...) KYMO__EVENT_4(verdict, __VA_ARGS__)
#define KYMO__EVENT_4(verdict, ...) KYMO__EVENT_##verdict(__VA_ARGS__)
#define KYMO__EVENT_MANY(provider, name, ...)                                                      \
	KYMO_STATIC_ASSERT(0, "kymo: " #provider ":" #name " has more than 32 fields");            \
	KYMO__EVENT_NONE(provider, name)
#define KYMO__EVENT_WRONG(provider, name, ...)                                                     \
	KYMO_STATIC_ASSERT(0, "kymo: fields of " #provider ":" #name " that are wrong:"            \
			   KYMO__EACH(KYMO__CHECK, TEXT, __VA_ARGS__)                              \
			   "; write (TYPE, NAME), with one of these types: "                       \
			   KYMO_SCALARS(KYMO__SCALAR_TEXT)                                         \
			   "str, bytes, enum(PROVIDER, NAME), array(T, COUNT), seq(T)");           \
	KYMO__EVENT_NONE(provider, name)
#define KYMO__SCALAR_TEXT(name, upper, code, bytes) #name ", "
#define KYMO__EVENT_NONE(provider, name)                                                           \
	static struct kymo_event kymo__event_##provider##_##name __attribute__((unused));          \
	static inline void kymo__write_##provider##_##name(const struct kymo_slot *kymo__slot, ...)  \
	{                                                                                          \
		(void)kymo__slot;                                                                  \
	}
#define KYMO__EVENT_RIGHT(provider, name, ...)                                                     \
	static const struct {                                                                      \
		struct kymo_desc head;                                                             \
		struct kymo_field fields[KYMO__COUNT(__VA_ARGS__)];                                \
		char text[sizeof(KYMO__EVENT_TEXT(provider, name, __VA_ARGS__))];                  \
	} kymo__desc_##provider##_##name KYMO__KEEP                                                \
		__attribute__((section("kymo_events"), aligned(8))) = {                            \
			{ KYMO_DESC_MAGIC,                                                         \
			  (uint32_t)(sizeof(struct kymo_desc) + 8 * KYMO__COUNT(__VA_ARGS__) +     \
				     sizeof(KYMO__EVENT_TEXT(provider, name, __VA_ARGS__))),       \
			  KYMO_DESC_EVENT, KYMO__COUNT(__VA_ARGS__) - 1, __LINE__,                 \
			  (uint16_t)sizeof(KYMO__EVENT_TEXT(provider, name, __VA_ARGS__)), 0,      \
			  { 0, 0, 0, 0, 0 } },                                                     \
			{ KYMO__FIELDS(DESC, __VA_ARGS__){ 0, 0, 0, 0, 0 } },                      \
			KYMO__EVENT_TEXT(provider, name, __VA_ARGS__)                              \
		};                                                                                 \
	static struct kymo_event kymo__event_##provider##_##name KYMO__KEEP                        \
		__attribute__((section("kymo_state"))) = {                                         \
			0, &kymo__desc_##provider##_##name.head, KYMO_NO_INDEX, 0, { 0 }, 0        \
		};                                                                                 \
	KYMO__WRITER(KYMO__IS_SHORT(__VA_ARGS__), provider, name, __VA_ARGS__)

/*
 * The function of an event, which its tracepoints call. An event of up to 10 fields of which the last alone is
 * a piece has a sequence of its own, in which each field goes straight to where it stands in the ring. Numbers are
 * packed into words, for a sequence that is there once for a file; all else is gathered from pieces.
 */
#if KYMO_ARCH_SEQUENCE
#define KYMO__WRITER(length, ...) KYMO__WRITER_1(length, __VA_ARGS__)
#else
#define KYMO__WRITER(length, ...) KYMO__WRITER_1(LONG, __VA_ARGS__)
#endif
#define KYMO__WRITER_1(length, ...) KYMO__WRITER_2(length, __VA_ARGS__)
#define KYMO__WRITER_2(length, ...) KYMO__WRITER_##length(__VA_ARGS__)

/* One piece, and it is the last field. */
#define KYMO__KINDS(...) "-" KYMO__FIELDS(KIND, __VA_ARGS__)
#define KYMO__ENDS_IN_PIECE(...)                                                                   \
	(KYMO__PIECE_COUNT(__VA_ARGS__) == 1 &&                                                    \
	 (KYMO__KINDS(__VA_ARGS__))[sizeof(KYMO__KINDS(__VA_ARGS__)) - 2] == 'p')
#define KYMO__RECORD_BYTES(...) (KYMO__BEFORE_PAYLOAD + KYMO__FIXED_BYTES(__VA_ARGS__))
/* Numbers only that fit into words in registers. */
#define KYMO__ARE_WORDS(...)                                                                       \
	(KYMO__PIECE_COUNT(__VA_ARGS__) == 0 &&                                                    \
	 KYMO__FIXED_BYTES(__VA_ARGS__) <= KYMO_WORDS_MAX * 8)
#define KYMO__WORD_AT(i, ...) (KYMO__FIXED_BYTES(__VA_ARGS__) > (i)*8 ? kymo__words[i] : 0)

#define KYMO__WRITER_SHORT(provider, name, ...)                                            \
	static void __attribute__((noinline, unused)) KYMO__UNSEEN kymo__write_##provider##_##name( \
		const struct kymo_slot *kymo__slot, KYMO__FIELDS(ARG, __VA_ARGS__) int kymo__end) \
	{                                                                                  \
		struct kymo_event *kymo__event = &kymo__event_##provider##_##name;         \
                                                                                           \
		(void)kymo__end;                                                           \
		if (KYMO__ENDS_IN_PIECE(__VA_ARGS__)) {                                    \
			KYMO__WRITE_OWN(kymo__event_##provider##_##name, __VA_ARGS__)      \
		} else {                                                                   \
			KYMO__WRITE_STAGED(__VA_ARGS__)                                    \
		}                                                                          \
	}

#define KYMO__WRITER_LONG(provider, name, ...)                                             \
	static void __attribute__((noinline, unused)) KYMO__UNSEEN kymo__write_##provider##_##name( \
		const struct kymo_slot *kymo__slot, KYMO__FIELDS(ARG, __VA_ARGS__) int kymo__end) \
	{                                                                                  \
		struct kymo_event *kymo__event = &kymo__event_##provider##_##name;         \
                                                                                           \
		(void)kymo__end;                                                           \
		KYMO__WRITE_STAGED(__VA_ARGS__)                                            \
	}

/* What the sequence does not write goes on out of line; a long piece is copied by the sequence for pieces. */
#define KYMO__WRITE_OWN(event, ...)                                                        \
	struct kymo__layout {                                                              \
		KYMO__FIELDS(MEMBER, __VA_ARGS__)                                          \
		char kymo__end;                                                            \
	} __attribute__((packed));                                                         \
	struct kymo__words {                                                               \
		KYMO__FIELDS(WORD, __VA_ARGS__)                                            \
		uint64_t kymo__unused;                                                     \
	} kymo__fields;                                                                    \
	const void *kymo__tail = 0;                                                        \
	size_t kymo__tail_bytes = 0, kymo__count = 0;                                      \
                                                                                           \
	KYMO__FIELDS(TAIL, __VA_ARGS__)                                                    \
	KYMO__FIELDS(FILL, __VA_ARGS__)                                                    \
	(void)kymo__count;                                                                 \
	if (KYMO__LIKELY(kymo__tail_bytes < KYMO__SEQ_TAIL_MAX)) {                         \
		KYMO__SEQ_FIELDS_AND_TAIL(kymo__slot, event, KYMO__RECORD_BYTES(__VA_ARGS__), \
					  &kymo__fields, kymo__tail, kymo__tail_bytes,     \
					  KYMO__FIELDS(MOVE, __VA_ARGS__),                 \
					  KYMO__FIELDS(MOVED, __VA_ARGS__));               \
		return;                                                                    \
	}                                                                                  \
out:                                                                                       \
	{                                                                                  \
		uint64_t kymo__step;                                                       \
		KYMO__BUILD(__VA_ARGS__)                                                   \
                                                                                           \
		KYMO__FIELDS(STAGE, __VA_ARGS__)                                           \
		kymo__put_tail(&kymo__b, kymo__tail, kymo__tail_bytes);                    \
		kymo__step = KYMO_ONE_RECORD + KYMO__BEFORE_PAYLOAD + kymo__b.bytes;       \
		if (kymo__tail_bytes < KYMO__SEQ_TAIL_MAX)                                 \
			kymo__module.rt->write_segs(kymo__event, kymo__step, kymo__segs,   \
						    kymo__segs + kymo__b.seg_count);       \
		else                                                                       \
			kymo__write_segs(kymo__event, kymo__step, kymo__segs,              \
					 kymo__segs + kymo__b.seg_count, kymo__slot);      \
	}

/* Says to the compiler that all of it is set; what is in use will be. */
#define KYMO__BUILD(...)                                                                   \
	uint64_t kymo__words[KYMO__FIXED_BYTES(__VA_ARGS__) / 8 + 2 +                      \
			     KYMO__PIECE_COUNT(__VA_ARGS__)];                              \
	struct kymo_seg kymo__segs[2 * KYMO__PIECE_COUNT(__VA_ARGS__) + 1];                \
	struct kymo__build kymo__b = { kymo__segs, 0, kymo__words, 0, 0, 0, 0 };           \
                                                                                           \
	__asm__("" : "=m"(kymo__segs), "=m"(kymo__words));

#define KYMO__WRITE_STAGED(...)                                                            \
	if (KYMO__ARE_WORDS(__VA_ARGS__)) {                                                \
		uint64_t kymo__words[KYMO__FIXED_BYTES(__VA_ARGS__) / 8 + KYMO_WORDS_MAX]; \
		unsigned kymo__at = 0;                                                     \
                                                                                           \
		KYMO__FIELDS(PACK, __VA_ARGS__)                                            \
		(void)kymo__at;                                                            \
		kymo__write_words(kymo__event, kymo__slot,                                 \
				  (unsigned)KYMO__FIXED_BYTES(__VA_ARGS__),                \
				  KYMO__WORD_AT(0, __VA_ARGS__), KYMO__WORD_AT(1, __VA_ARGS__), \
				  KYMO__WORD_AT(2, __VA_ARGS__), KYMO__WORD_AT(3, __VA_ARGS__)); \
	} else {                                                                           \
		KYMO__BUILD(__VA_ARGS__)                                                   \
                                                                                           \
		KYMO__FIELDS(PUT, __VA_ARGS__)                                             \
		if (kymo__b.at != kymo__b.run)                                             \
			kymo__put_run(&kymo__b);                                           \
		kymo__write_segs(kymo__event,                                              \
				 KYMO_ONE_RECORD + KYMO__BEFORE_PAYLOAD + kymo__b.bytes,   \
				 kymo__segs, kymo__segs + kymo__b.seg_count, kymo__slot);  \
	}

#ifdef __cplusplus
}
#endif
#endif
#endif
