# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bars of the latency laboratory, measured: what lab/table prints (spec/decisions/0003-the-laboratory.md)."""
