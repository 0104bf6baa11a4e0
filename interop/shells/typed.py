"""Types a line and a tabulator into zsh, and waits for what it becomes: typed.py LINE WANTED."""

import os
import pty
import re
import select
import sys
import time

PATIENCE = 60
READY = "ready> "
DONE = "#done"


def main(line: str, wanted: str) -> int:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(PS1=READY, TERM="dumb", COLUMNS="200")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        shown = Screen(terminal)
        shown.until(READY)
        setup = "unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D"
        shown.types(f"{setup}; source <(toolbus completions zsh); print set''up\n")
        shown.until("setup")
        shown.until(READY)
        # What is typed behind the tabulator stands behind what was completed.
        shown.types(line + "\t" + DONE)
        shown.until(DONE)
        if f"{wanted}{DONE}" in shown.text:
            return 0
        print(repr(shown.text), file=sys.stderr)
        return 1
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


class Screen:
    """What a terminal shows from the last thing that was waited for."""

    def __init__(self, terminal: int) -> None:
        self.terminal, self.raw = terminal, ""

    @property
    def text(self) -> str:
        """Without escapes, and without what was rubbed out."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|.\x08", "", self.raw)

    def types(self, keys: str) -> None:
        self.raw = ""
        os.write(self.terminal, keys.encode())

    def until(self, wanted: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                sys.exit(f"never shown: {wanted!r} in {self.text!r}")
            self.raw += os.read(self.terminal, 65536).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
