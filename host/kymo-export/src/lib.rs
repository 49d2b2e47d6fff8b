// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces out to other tools' formats (spec/exchange.md).
