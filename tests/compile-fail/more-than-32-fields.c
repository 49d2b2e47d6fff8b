#include <kymo/tracepoint.h>

KYMO_EVENT(motor, many, (u8, a1), (u8, a2), (u8, a3), (u8, a4), (u8, a5), (u8, a6), (u8, a7), (u8, a8), (u8, b1), (u8, b2),
	   (u8, b3), (u8, b4), (u8, b5), (u8, b6), (u8, b7), (u8, b8), (u8, c1), (u8, c2), (u8, c3), (u8, c4), (u8, c5), (u8, c6),
	   (u8, c7), (u8, c8), (u8, d1), (u8, d2), (u8, d3), (u8, d4), (u8, d5), (u8, d6), (u8, d7), (u8, d8), (u8, e1))
