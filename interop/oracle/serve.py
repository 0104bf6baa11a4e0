"""Our oracle under a foreign executor: serve.py TOOLBUS"""

import os
import sys
import time

from executor import Executor

toolbus, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))


def check(got, want):
    assert got == want, "got %r, want %r" % (got, want)


ours = Executor([toolbus, "oracle", "serve", "builtin:"])
check(ours.invoke("add", "0x1", "0x2"), ["0x3"])
check(ours.invoke("upper", "0x0", "0x616263", "0x3"), ["0x0", "0x414243", "0x3"])
check(ours.invoke("fail", "0x0", "0x6f6f7073", "0x4", "0x1"), "error: oops")
check(ours.invoke("add", "0x1"), "error: parameter `b` needs felt 1, which is missing")
check(ours.invoke("nope").split(",")[0], 'error: unknown selector: "nope"')
check(ours.invoke("add", "0x2", "0x2"), ["0x4"])
ours.leave()

# The foreign oracle behind ours: its selectors by the generic tool, its failures in our words.
back = "stdio:%s %s/oracle.py" % (sys.executable, here)
front = Executor([toolbus, "oracle", "serve", "-q", back])
echo = ["0x0", "0x6563686f", "0x4", "0x1", "0x7"]
check(front.invoke("invoke", *echo), ["0x1", "0x7"])
fail = ["0x0", "0x6661696c", "0x4", "0x0"]
check(front.invoke("invoke", *fail), "error: cannot do it\n\nCaused by:\n    no luck")
panic = ["0x0", "0x70616e6963", "0x5", "0x0"]
check(front.invoke("invoke", *panic), "error: `python3` ended with exit status 101 before it answered"
      .replace("python3", os.path.basename(sys.executable)))
check(front.invoke("invoke", *echo), ["0x1", "0x7"])
_, pid = front.invoke("invoke", "0x0", "0x706964", "0x3", "0x0")
front.leave()
until = time.monotonic() + 60
while os.path.exists("/proc/%d" % int(pid, 16)):
    assert time.monotonic() < until, "a back outlived its oracle"
    time.sleep(0.01)
print("oracle: our oracle serves a foreign executor")
