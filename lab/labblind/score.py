# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Scores of answers [spec/lab.md 7]: right; doubtful, that is wrong or none, but saying that it is not sure; wrong, that is another cause
without any doubt. A trace that could not be made, or did not end in time, has failed: nothing was asked about it.
"""
RIGHT, DOUBTFUL, FAILED, WRONG = "right", "doubtful", "failed", "wrong"


def is_doubtful(kind, parts):
    """Whether an answer says that its largest cause is not sure: all of it is marked, or inferred, or it is no cause at all."""
    return kind == "remainder" or all(part.get("doubt") or not part.get("seen", True) for part in parts)


def of_answer(wanted, largest, text):
    """The score of one answer: its largest cause with its slices (`None`: there was no answer), and the same as text. And what it said."""
    if largest is None:
        return DOUBTFUL, "no answer"
    kind, parts = largest
    wrong = wanted.wrong(largest, text)
    if wrong is None:
        return RIGHT, kind
    return (DOUBTFUL if is_doubtful(kind, parts) else WRONG), wrong


def together(scores):
    """Of several answers about one trace: as good as the worst."""
    return max(scores, key=[RIGHT, DOUBTFUL, FAILED, WRONG].index)


def bars(scores):
    """How many are right, doubtful, failed and wrong, and whether the bars are met: 57 of 60 right, none wrong."""
    counts = {score: scores.count(score) for score in (RIGHT, DOUBTFUL, FAILED, WRONG)}
    is_met = bool(scores) and counts[WRONG] == 0 and counts[RIGHT] * 60 >= 57 * len(scores)
    return counts, is_met
