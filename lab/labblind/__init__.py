# SPDX-License-Identifier: MIT OR Apache-2.0
"""The blind test of the causes: what is drawn, and how answers are scored. lab/blind runs it."""
