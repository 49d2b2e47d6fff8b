# SPDX-License-Identifier: MIT OR Apache-2.0
"""Named sessions of kymo in the bench's own runtime directory: started, asked, stopped."""

import json
import os
import subprocess

from . import kymo


class SessionError(Exception):
    """A verb of `kymo session` failed; says what it printed."""


class Session:
    """A running session. Context manager; after it, summary is known."""

    def __init__(self, ctx, name, *options):
        self.ctx, self.name, self.options = ctx, name, options
        self.dir = ctx.shm / f"session-{name}"
        self.summary, self.pid = {}, 0

    def verb(self, verb, *args):
        """Runs `kymo session VERB NAME --json ARGS`, and returns what it answers."""
        command = [str(self.ctx.kymo), "session", verb, self.name, "--json", *args]
        done = subprocess.run(command, env=environment(self.ctx), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        if done.returncode != 0:
            raise SessionError(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def __enter__(self):
        self.pid = self.verb("start", "-o", str(self.dir), *self.options)["pid"]
        return self

    def __exit__(self, *_):
        self.summary = self.verb("stop")

    def lost(self):
        """Records lost, by the summary; it must know."""
        if self.summary["lost"] is None:
            raise SessionError(f"session {self.name} does not know what it lost: {'; '.join(kymo.unknown(self.summary))}")
        return sum(self.summary["lost"].values())


def environment(ctx):
    """That of a traced program. It waits for a collector that is busy: what it recorded without it would be unknown."""
    return dict(os.environ, KYMO_RUNTIME_DIR=str(ctx.runtime), KYMO_START_WAIT="10000")


def run(ctx, program, *args):
    """A program of the bench to its end; its words by line."""
    done = subprocess.run([str(ctx.programs / program), *map(str, args)], env=environment(ctx), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SessionError(f"{program} {args}: exit status {done.returncode}: {done.stderr}")
    return [line.split() for line in done.stdout.splitlines()]
