"""A browser without a window: GETs a URL and follows where it is sent."""

import sys
import urllib.error
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        answer.read()
except urllib.error.HTTPError as error:
    error.read()
